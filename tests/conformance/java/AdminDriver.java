import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's Admin client and command-line tools, driven from a pipe: one command a line, its words separated by tabs,
 * answered by one line of JSON. The tools run in this process, one after the other, so a JVM starts once for all.
 */
public final class AdminDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** One for all tools: Scala's console keeps the stream that the first one printed to. */
    private static final ByteArrayOutputStream PRINTED = new ByteArrayOutputStream();
    private static final PrintStream CAPTURE = new PrintStream(PRINTED, true, StandardCharsets.UTF_8);
    private static Integer exitCode;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> {
            if (exitCode == null) {
                // Some tools catch what their own exit throws here, and exit again.
                exitCode = code;
            }
            throw new Exited();
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            Object answer = switch (words[0]) {
                case "tool" -> tool(words);
                case "commit" -> commit(words[1], words[2], words[3]);
                default -> admin(words[1], words[2], words[3]);
            };
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static final class Exited extends RuntimeException {
        private Exited() {
            super(null, null, false, false);
        }
    }

    private static Map<String, Object> tool(String[] words) throws ReflectiveOperationException {
        PrintStream out = System.out;
        PrintStream err = System.err;
        PRINTED.reset();
        exitCode = null;
        try {
            System.setOut(CAPTURE);
            System.setErr(CAPTURE);
            Class.forName(words[1]).getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 2, words.length));
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Exited)) {
                failure.getCause().printStackTrace(CAPTURE);
                exitCode = -1;
            }
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return Map.of("exit", exitCode == null ? 0 : exitCode, "printed", PRINTED.toString(StandardCharsets.UTF_8));
    }

    private static Properties config(String bootstrap) {
        Properties config = Login.properties();
        config.put("bootstrap.servers", bootstrap);
        return config;
    }

    /** A group with one offset and no members. */
    private static Map<String, Object> commit(String bootstrap, String topic, String group) throws Exception {
        try (Admin admin = Admin.create(config(bootstrap))) {
            TopicPartition partition = new TopicPartition(topic, 0);
            admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(2))).all().get();
        }
        return Map.of();
    }

    /** Every call that tools make, on this topic and group; each with what it answered, as text. */
    private static Map<String, Object> admin(String bootstrap, String topic, String group) {
        Map<String, Callable<Object>> calls = new LinkedHashMap<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(config(bootstrap))) {
            topics(calls, admin, topic);
            offsets(calls, admin, partition);
            transactions(calls, admin, partition);
            groups(calls, admin, group, partition);
            Map<String, Object> answers = new LinkedHashMap<>();
            calls.forEach((name, call) -> answers.put(name, answer(call)));
            return answers;
        }
    }

    private static Object answer(Callable<Object> call) {
        try {
            return String.valueOf(call.call());
        } catch (ExecutionException failure) {
            return "failed: " + failure.getCause();
        } catch (Exception failure) {
            return "failed: " + failure;
        }
    }

    private static void topics(Map<String, Callable<Object>> calls, Admin admin, String topic) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        String made = topic + "-made";
        calls.put("describeCluster nodes", () -> admin.describeCluster().nodes().get());
        calls.put("describeCluster id", () -> admin.describeCluster().clusterId().get());
        calls.put("describeCluster controller", () -> admin.describeCluster().controller().get().id());
        calls.put("describeFeatures", () -> new TreeMap<>(
            admin.describeFeatures().featureMetadata().get().finalizedFeatures()));
        calls.put("listTopics", () -> admin.listTopics().names().get().contains(topic));
        calls.put("describeTopics", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
        calls.put("describeTopics by id", () -> {
            var id = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
            return admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id).name();
        });
        calls.put("describeTopics of none", () -> admin.describeTopics(List.of("nowhere")).allTopicNames().get());
        calls.put("createTopics", () -> admin.createTopics(List.of(
            new NewTopic(made, Optional.of(2), Optional.empty()).configs(Map.of("retention.ms", "1000"))))
            .config(made).get().get("retention.ms").value());
        calls.put("createPartitions", () -> admin.createPartitions(Map.of(made, NewPartitions.increaseTo(3))).all().get());
        calls.put("deleteTopics", () -> admin.deleteTopics(List.of(made)).all().get());
        calls.put("incrementalAlterConfigs", () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "123456789"), AlterConfigOp.OpType.SET)))).all().get());
        calls.put("describeConfigs", () -> admin.describeConfigs(List.of(resource),
            new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(resource)
            .get("retention.ms").value());
        calls.put("describeConfigs of a broker", () -> {
            String id = String.valueOf(admin.describeCluster().nodes().get().iterator().next().id());
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, id);
            return admin.describeConfigs(List.of(broker)).all().get().get(broker).get("num.partitions").value();
        });
    }

    private static void offsets(Map<String, Callable<Object>> calls, Admin admin, TopicPartition partition) {
        Map<String, OffsetSpec> specs = new LinkedHashMap<>();
        specs.put("earliest", OffsetSpec.earliest());
        specs.put("latest", OffsetSpec.latest());
        specs.put("max timestamp", OffsetSpec.maxTimestamp());
        specs.put("a time", OffsetSpec.forTimestamp(1));
        specs.forEach((name, spec) -> calls.put("listOffsets " + name,
            () -> admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset()));
        calls.put("deleteRecords", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(1)))
            .lowWatermarks().get(partition).get().lowWatermark());
        calls.put("listOffsets after deleteRecords", () -> admin.listOffsets(Map.of(partition, OffsetSpec.earliest()))
            .partitionResult(partition).get().offset());
    }

    private static void transactions(Map<String, Callable<Object>> calls, Admin admin, TopicPartition partition) {
        calls.put("describeProducers", () -> producer(admin, partition).currentTransactionStartOffset().isPresent());
        calls.put("listTransactions", () -> admin.listTransactions().all().get().stream()
            .map(one -> one.transactionalId() + " " + one.state()).sorted().toList());
        calls.put("describeTransactions", () -> {
            var first = admin.listTransactions().all().get().iterator().next().transactionalId();
            return admin.describeTransactions(List.of(first)).all().get().get(first).topicPartitions();
        });
        calls.put("describeTransactions of none",
            () -> admin.describeTransactions(List.of("nobody")).all().get());
        calls.put("abortTransaction", () -> {
            ProducerState open = producer(admin, partition);
            return admin.abortTransaction(new AbortTransactionSpec(partition, open.producerId(),
                (short) open.producerEpoch(), open.coordinatorEpoch().orElse(0))).all().get();
        });
        calls.put("fenceProducers", () -> admin.fenceProducers(List.of("fenced")).all().get());
    }

    private static ProducerState producer(Admin admin, TopicPartition partition) throws Exception {
        return admin.describeProducers(Set.of(partition)).partitionResult(partition).get().activeProducers().stream()
            .filter(one -> one.currentTransactionStartOffset().isPresent()).findFirst().orElseThrow();
    }

    private static void groups(
        Map<String, Callable<Object>> calls, Admin admin, String group, TopicPartition partition) {
        calls.put("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(group,
            Map.of(partition, new OffsetAndMetadata(2))).all().get());
        calls.put("listGroups", () -> admin.listGroups().all().get().stream()
            .anyMatch(one -> one.groupId().equals(group)));
        calls.put("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream()
            .anyMatch(one -> one.groupId().equals(group)));
        calls.put("describeConsumerGroups", () -> admin.describeConsumerGroups(List.of(group)).all().get().get(group)
            .groupState());
        calls.put("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(group)
            .partitionsToOffsetAndMetadata().get().get(partition).offset());
        calls.put("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        calls.put("deleteConsumerGroupOffsets",
            () -> {
                admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(2))).all().get();
                return admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
            });
        calls.put("describeConsumerGroups of none",
            () -> admin.describeConsumerGroups(List.of("nobody")).all().get());
    }
}
