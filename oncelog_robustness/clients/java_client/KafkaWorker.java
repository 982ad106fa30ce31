import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.KafkaClient;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.IllegalGenerationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's Java clients, driven from a pipe by oncelog_robustness/clients/java.py. A line is a command: its number, its
 * verb, the name of a client, and more words, separated by tabs. Bytes travel as hex, and a null as the word null. A
 * line of JSON answers each command, with its number. The commands of one client run in their order.
 *
 * When its input ends, the process ends at once: its owner has died, and an owner that dies says goodbye to nobody.
 */
public final class KafkaWorker {
    private static final PrintStream ANSWERS = System.out;
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private final Map<String, OneProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, OneConsumer> consumers = new ConcurrentHashMap<>();
    private final Map<String, ConsumerGroupMetadata> memberships = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        // What logs write must not come between answers.
        System.setOut(System.err);
        KafkaWorker worker = new KafkaWorker();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            worker.take(line.split("\t", -1));
        }
        Runtime.getRuntime().halt(0);
    }

    private void take(String[] words) {
        if (words[1].equals("close")) {
            // It must not wait for a call that does not return.
            new Thread(() -> close(words)).start();
        } else {
            threads.computeIfAbsent(words[2], name -> Executors.newSingleThreadExecutor(KafkaWorker::daemon))
                .execute(() -> run(words));
        }
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private void run(String[] words) {
        try {
            String found = words[1].startsWith("c-") ? consume(words) : produce(words);
            if (found != null) {
                answer(words[0], found);
            }
        } catch (Throwable failure) {
            answer(words[0], described(failure, producers.get(words[2])));
        }
    }

    private void close(String[] words) {
        OneProducer producer = producers.remove(words[2]);
        OneConsumer consumer = consumers.remove(words[2]);
        ExecutorService thread = threads.remove(words[2]);
        try {
            if (producer != null) {
                producer.client.close(Duration.ZERO);
            }
            if (consumer != null && thread != null) {
                consumer.client.wakeup();
                thread.submit(() -> consumer.client.close(Duration.ofMillis(1_000))).get();
            }
        } catch (Throwable failure) {
            // What cannot be closed is abandoned, as by an application that exits.
        } finally {
            if (thread != null) {
                thread.shutdownNow();
            }
            answer(words[0], "");
        }
    }

    // ------------------------------------------------------------------------------------------------- producers

    private static final class OneProducer {
        final KafkaProducer<byte[], byte[]> client;
        final AtomicInteger endings = new AtomicInteger();
        int before;
        boolean isCounted;

        OneProducer(KafkaProducer<byte[], byte[]> client) {
            this.client = client;
            try {
                count();
                isCounted = true;
            } catch (ReflectiveOperationException | RuntimeException unknown) {
                // A version whose inside looks different: then nobody knows how often EndTxn was sent.
                isCounted = false;
            }
        }

        /** Count the requests EndTxn that leave, which the client repeats without telling. */
        private void count() throws ReflectiveOperationException {
            Object sender = read(client, "sender");
            Field field = sender.getClass().getDeclaredField("client");
            field.setAccessible(true);
            Object real = field.get(sender);
            field.set(sender, Proxy.newProxyInstance(
                KafkaWorker.class.getClassLoader(),
                new Class<?>[] {KafkaClient.class},
                (proxy, method, arguments) -> {
                    if (method.getName().equals("send") && ((ClientRequest) arguments[0]).apiKey() == ApiKeys.END_TXN) {
                        endings.incrementAndGet();
                    }
                    try {
                        return method.invoke(real, arguments);
                    } catch (InvocationTargetException failure) {
                        throw failure.getCause();
                    }
                }));
        }

        /** How often EndTxn was sent for the last ending; -1: not known. */
        int sent() {
            return isCounted ? endings.get() - before : -1;
        }

        /** True if its transactions have the version 2 (KIP-890), as brokers say by their features. */
        boolean isSecond() {
            try {
                Object manager = read(client, "transactionManager");
                return (Boolean) manager.getClass().getMethod("isTransactionV2Enabled").invoke(manager);
            } catch (ReflectiveOperationException | RuntimeException older) {
                return false;
            }
        }

        private static Object read(Object owner, String name) throws ReflectiveOperationException {
            Field field = owner.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field.get(owner);
        }
    }

    private String produce(String[] words) throws Exception {
        if (words[1].equals("p-open")) {
            producers.put(words[2], new OneProducer(new KafkaProducer<>(
                config(words, 3), new ByteArraySerializer(), new ByteArraySerializer())));
            return "";
        }
        OneProducer producer = producers.get(words[2]);
        switch (words[1]) {
            case "p-init": producer.client.initTransactions(); return "\"tv2\":" + producer.isSecond();
            case "p-begin": producer.client.beginTransaction(); return "\"tv2\":" + producer.isSecond();
            case "p-send": return send(producer, words);
            case "p-offsets": return offsets(producer, words);
            case "p-commit": producer.before = producer.endings.get(); producer.client.commitTransaction(); return "";
            case "p-abort": producer.client.abortTransaction(); return "";
            default: throw new IllegalArgumentException("unknown verb " + words[1]);
        }
    }

    private String send(OneProducer producer, String[] words) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            words[3], Integer.valueOf(words[4]), bytes(words[5]), bytes(words[6]));
        producer.client.send(record, (sent, failure) -> answer(
            words[0], failure == null ? "\"offset\":" + sent.offset() : described(failure, producer)));
        return null;
    }

    private String offsets(OneProducer producer, String[] words) {
        ConsumerGroupMetadata group = words[3].equals("group")
            ? new ConsumerGroupMetadata(words[4])
            : memberships.get(words[4]);
        producer.client.sendOffsetsToTransaction(placed(words, 5), group);
        return "";
    }

    // ------------------------------------------------------------------------------------------------- consumers

    private static final class OneConsumer implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> client;
        boolean isMoved;
        boolean isGiven;

        OneConsumer(KafkaConsumer<byte[], byte[]> client) {
            this.client = client;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            isMoved = true;
            isGiven = false;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            isMoved = true;
            isGiven = true;
            client.pause(client.assignment());
        }
    }

    private String consume(String[] words) {
        if (words[1].equals("c-open")) {
            consumers.put(words[2], new OneConsumer(new KafkaConsumer<>(
                config(words, 3), new ByteArrayDeserializer(), new ByteArrayDeserializer())));
            return "";
        }
        OneConsumer consumer = consumers.get(words[2]);
        switch (words[1]) {
            case "c-assign":
                Map<TopicPartition, OffsetAndMetadata> wanted = placed(words, 3);
                consumer.client.assign(wanted.keySet());
                wanted.forEach((partition, at) -> consumer.client.seek(partition, at.offset()));
                return "";
            case "c-subscribe":
                consumer.client.subscribe(List.of(words[3].split(",")), consumer);
                return "";
            case "c-poll": return poll(consumer, Long.parseLong(words[3]));
            case "c-settle": return settle(consumer, words[3], placed(words, 4));
            case "c-position":
                TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
                return "\"offset\":" + consumer.client.position(partition, Duration.ofSeconds(5));
            case "c-commit": consumer.client.commitSync(placed(words, 3), Duration.ofSeconds(20)); return "";
            default: throw new IllegalArgumentException("unknown verb " + words[1]);
        }
    }

    private static String poll(OneConsumer consumer, long timeoutMs) {
        consumer.isMoved = false;
        List<String> reads = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> one : consumer.client.poll(Duration.ofMillis(timeoutMs))) {
            reads.add("[\"" + one.topic() + "\"," + one.partition() + "," + one.offset() + "," + hex(one.value()) + ","
                + hex(one.key()) + "]");
        }
        String found = "\"reads\":[" + String.join(",", reads) + "],\"moved\":" + consumer.isMoved;
        return consumer.isGiven ? found + ",\"given\":" + given(consumer) : found;
    }

    private static String given(OneConsumer consumer) {
        consumer.isGiven = false;
        List<String> partitions = new ArrayList<>();
        for (TopicPartition one : consumer.client.assignment()) {
            partitions.add("[\"" + one.topic() + "\"," + one.partition() + "]");
        }
        return "[" + String.join(",", partitions) + "]";
    }

    /**
     * Read what was given from these positions, and keep the membership of this generation under a name. Nothing can be
     * taken away meanwhile: only poll rebalances.
     */
    private String settle(OneConsumer consumer, String name, Map<TopicPartition, OffsetAndMetadata> positions) {
        positions.forEach((partition, at) -> consumer.client.seek(partition, at.offset()));
        consumer.client.resume(positions.keySet());
        memberships.put(name, consumer.client.groupMetadata());
        return "";
    }

    // ------------------------------------------------------------------------------------------------- words

    private static Properties config(String[] words, int from) {
        Properties config = new Properties();
        for (int at = from; at + 1 < words.length; at += 2) {
            config.put(words[at], new String(bytes(words[at + 1]), StandardCharsets.UTF_8));
        }
        return config;
    }

    private static Map<TopicPartition, OffsetAndMetadata> placed(String[] words, int from) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (int at = from; at + 2 < words.length; at += 3) {
            found.put(
                new TopicPartition(words[at], Integer.parseInt(words[at + 1])),
                new OffsetAndMetadata(Long.parseLong(words[at + 2])));
        }
        return found;
    }

    private static String described(Throwable failure, OneProducer producer) {
        TreeSet<String> kinds = new TreeSet<>();
        for (Throwable at = failure; at != null; at = at.getCause()) {
            if (at instanceof ProducerFencedException) {
                kinds.add("fenced");
            } else if (at instanceof InvalidProducerEpochException) {
                kinds.add("ended");
            } else if (at instanceof InvalidTxnStateException) {
                kinds.add("state");
            } else if (at instanceof InvalidOffsetException) {
                kinds.add("gone");
            } else if (at instanceof TimeoutException || at instanceof InterruptException) {
                kinds.add("timeout");
            } else if (at instanceof CommitFailedException || at instanceof IllegalGenerationException
                    || at instanceof UnknownMemberIdException || at instanceof RebalanceInProgressException
                    || at instanceof FencedInstanceIdException) {
                kinds.add("stale");
            }
        }
        String text = (failure.getClass().getSimpleName() + ": " + failure.getMessage())
            .replaceAll("[^ -~]", " ").replace("\\", "/").replace("\"", "'");
        String sent = producer == null ? "" : ",\"sent\":" + producer.sent();
        return "\"error\":\"" + text + "\",\"kinds\":\"" + String.join(" ", kinds) + "\"" + sent;
    }

    private static void answer(String number, String content) {
        String line = "{\"number\":" + number + (content.isEmpty() ? "" : "," + content) + "}\n";
        synchronized (ANSWERS) {
            ANSWERS.print(line);
            ANSWERS.flush();
        }
    }

    private static byte[] bytes(String hex) {
        return hex.equals("null") ? null : HexFormat.of().parseHex(hex);
    }

    private static String hex(byte[] content) {
        return content == null ? "null" : "\"" + HexFormat.of().formatHex(content) + "\"";
    }
}
