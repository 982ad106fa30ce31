import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TransactionAbortableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Drives the Java client from a pipe: one command a line, its words separated by tabs, answered by one line of JSON.
 * Bytes travel as hex, a null as the word null. Several producers live at once, each under a name.
 */
public final class TransactionDriver {
    private static final int CALL_TIMEOUT_MS = 30_000;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        TransactionDriver driver = new TransactionDriver();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = driver.answer(line.split("\t", -1));
            } catch (Exception failure) {
                answer = describe(failure);
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open": return open(words);
            case "init": producers.get(words[1]).initTransactions(); return "{}";
            case "begin": producers.get(words[1]).beginTransaction(); return "{}";
            case "send": return send(words);
            case "commit": producers.get(words[1]).commitTransaction(); return "{}";
            case "abort": producers.get(words[1]).abortTransaction(); return "{}";
            case "close": producers.remove(words[1]).close(Duration.ZERO); return "{}";
            case "epoch": return epoch(words);
            case "read": return read(words);
            case "subscribe": return subscribe(words);
            case "offset": return offset(words);
            case "offset-for-time": return offsetForTime(words);
            default: throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private String open(String[] words) {
        Properties config = Login.properties();
        config.put("bootstrap.servers", words[2]);
        if (!words[3].isEmpty()) {
            config.put("transactional.id", words[3]);
            config.put("transaction.timeout.ms", words[4]);
        }
        config.put("compression.type", words[5]);
        config.put("max.block.ms", CALL_TIMEOUT_MS);
        config.put("reconnect.backoff.max.ms", 300);
        producers.put(words[1], new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer()));
        return "{}";
    }

    private String send(String[] words) throws Exception {
        long timestamp = Long.parseLong(words[6]);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            words[2], Integer.valueOf(words[3]), timestamp < 0 ? null : timestamp, bytes(words[4]), bytes(words[5]));
        for (int i = 7; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            record.headers().add(words[i].substring(0, equals), bytes(words[i].substring(equals + 1)));
        }
        long offset = producers.get(words[1]).send(record).get(CALL_TIMEOUT_MS, TimeUnit.MILLISECONDS).offset();
        return "{\"offset\":" + offset + "}";
    }

    /** The producer epoch, which the client does not tell anybody: it shows whether every transaction bumps it. */
    private String epoch(String[] words) throws Exception {
        Object manager = read(producers.get(words[1]), "transactionManager");
        Object current = read(manager, "producerIdAndEpoch");
        return "{\"producer_id\":" + read(current, "producerId") + ",\"epoch\":" + read(current, "epoch") + "}";
    }

    private static Object read(Object owner, String name) throws ReflectiveOperationException {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    private KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String isolation) {
        Properties config = Login.properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("isolation.level", isolation);
        config.put("enable.auto.commit", "false");
        config.put("fetch.max.wait.ms", "100");
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private String read(String[] words) {
        TopicPartition partition = new TopicPartition(words[2], Integer.parseInt(words[3]));
        long deadline = System.nanoTime() + Long.parseLong(words[6]) * 1_000_000L;
        byte[] until = bytes(words[7]);
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(words[1], words[5])) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, Long.parseLong(words[4]));
            boolean isDone = false;
            while (!isDone && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    found.add(json(record));
                    isDone |= java.util.Arrays.equals(until, record.value());
                }
            }
        }
        return "{\"records\":[" + String.join(",", found) + "]}";
    }

    /** As a member of a group: so many records, then a commit, then it leaves. */
    private String subscribe(String[] words) {
        Properties config = Login.properties();
        config.put("bootstrap.servers", words[1]);
        config.put("group.id", words[2]);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("group.protocol", words[5]);
        int count = Integer.parseInt(words[4]);
        long deadline = System.nanoTime() + CALL_TIMEOUT_MS * 1_000_000L;
        List<String> found = new ArrayList<>();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, bytes, bytes)) {
            consumer.subscribe(List.of(words[3]));
            while (found.size() < count && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> found.add(json(record)));
            }
            consumer.commitSync();
        }
        return "{\"records\":[" + String.join(",", found) + "]}";
    }

    /** A group's offset of one partition, as a part of the producer's transaction. */
    private String offset(String[] words) {
        TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
        OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(words[5]));
        producers.get(words[1]).sendOffsetsToTransaction(Map.of(partition, offset), new ConsumerGroupMetadata(words[2]));
        return "{}";
    }

    private String offsetForTime(String[] words) {
        TopicPartition partition = new TopicPartition(words[2], Integer.parseInt(words[3]));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(words[1], "read_uncommitted")) {
            long offset = consumer.offsetsForTimes(Map.of(partition, Long.valueOf(words[4]))).get(partition).offset();
            return "{\"offset\":" + offset + "}";
        }
    }

    private static String json(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add("[\"" + header.key() + "\"," + hex(header.value()) + "]");
        }
        return "{\"value\":" + hex(record.value()) + ",\"key\":" + hex(record.key()) + ",\"offset\":" + record.offset()
            + ",\"timestamp\":" + record.timestamp() + ",\"headers\":[" + String.join(",", headers) + "]}";
    }

    private static String describe(Exception failure) {
        Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
        String kind = "other";
        for (Throwable at = cause; at != null; at = at.getCause()) {
            if (at instanceof ProducerFencedException || at instanceof InvalidProducerEpochException) {
                kind = "fenced";
            } else if (at instanceof TransactionAbortableException && kind.equals("other")) {
                kind = "abortable";
            }
        }
        String text = (cause.getClass().getSimpleName() + ": " + cause.getMessage()).replaceAll("[^ -~]", " ")
            .replace("\\", "/").replace("\"", "'");
        return "{\"error\":\"" + text + "\",\"kind\":\"" + kind + "\",\"code\":" + Errors.forException(cause).code() + "}";
    }

    private static byte[] bytes(String hex) {
        return hex.equals("null") ? null : HexFormat.of().parseHex(hex);
    }

    private static String hex(byte[] content) {
        return content == null ? "null" : "\"" + HexFormat.of().formatHex(content) + "\"";
    }
}
