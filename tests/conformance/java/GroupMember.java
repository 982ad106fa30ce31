import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group until its input ends. Tells what it reads and what it has, a fact a line; commits when a line
 * comes in. Arguments: bootstrap, group, topic, then configs of the consumer as name=value.
 */
public final class GroupMember {
    public static void main(String[] arguments) throws Exception {
        Properties config = Login.properties();
        config.put("bootstrap.servers", arguments[0]);
        config.put("group.id", arguments[1]);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        for (int at = 3; at < arguments.length; at++) {
            String[] pair = arguments[at].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        ConcurrentLinkedQueue<String> commands = new ConcurrentLinkedQueue<>();
        Thread reader = new Thread(() -> read(commands));
        reader.start();
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, text, text)) {
            consumer.subscribe(List.of(arguments[2]));
            Set<TopicPartition> had = Set.of();
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                    tell("read " + record.value());
                }
                if (!consumer.assignment().equals(had)) {
                    had = Set.copyOf(consumer.assignment());
                    tell("has " + had.stream().map(one -> "" + one.partition()).collect(Collectors.joining(" ")));
                }
                String command = commands.poll();
                if ("commit".equals(command)) {
                    consumer.commitSync();
                    tell("committed");
                } else if ("end".equals(command)) {
                    return;
                }
            }
        }
    }

    private static void read(Collection<String> commands) {
        try {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(line);
            }
        } catch (java.io.IOException closed) {
            // Its end is what matters.
        }
        commands.add("end");
    }

    private static void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
