import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer that repeats nothing, and a consumer of many partitions. Each line of the input is a command, each is
 * answered by one line.
 */
public class TopicIds {
    public static void main(String[] arguments) {
        Properties common = new Properties();
        common.put("bootstrap.servers", arguments[0]);
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        Properties producing = new Properties();
        producing.putAll(common);
        producing.put("enable.idempotence", "false");
        producing.put("retries", "0");
        Properties consuming = new Properties();
        consuming.putAll(common);
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("enable.auto.commit", "false");
        try (KafkaProducer<String, String> producer =
                     new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer());
                KafkaConsumer<String, String> consumer =
                        new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer());
                Scanner lines = new Scanner(System.in)) {
            List<TopicPartition> assigned = new ArrayList<>();
            for (int number = 0; number < partitions; number++) {
                assigned.add(new TopicPartition(topic, number));
            }
            consumer.assign(assigned);
            System.out.println("ready");
            while (lines.hasNextLine()) {
                String[] words = lines.nextLine().split(" ");
                switch (words[0]) {
                    case "send":
                        System.out.println("sent " + sent(producer, topic, Integer.parseInt(words[1]), words[2]));
                        break;
                    case "read":
                        System.out.println("read " + String.join(",", read(consumer, Integer.parseInt(words[1]))));
                        break;
                    default:
                        System.out.println("bytes " + (long) bytesOfAFetch(consumer));
                }
            }
        }
    }

    private static String sent(KafkaProducer<String, String> producer, String topic, int partition, String value) {
        try {
            return "" + producer.send(new ProducerRecord<>(topic, partition, null, value)).get().offset();
        } catch (ExecutionException failure) {
            return failure.getCause().getClass().getSimpleName();
        } catch (InterruptedException interrupted) {
            return "interrupted";
        }
    }

    private static List<String> read(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        while (values.size() < count) {
            consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
        }
        return values;
    }

    /** What the consumer has sent and received for each of ten further fetches. */
    private static double bytesOfAFetch(KafkaConsumer<String, String> consumer) {
        double fetches = metric(consumer, "fetch-total");
        double bytes = metric(consumer, "outgoing-byte-total") + metric(consumer, "incoming-byte-total");
        while (metric(consumer, "fetch-total") < fetches + 10) {
            consumer.poll(Duration.ofMillis(100));
        }
        double after = metric(consumer, "outgoing-byte-total") + metric(consumer, "incoming-byte-total");
        return (after - bytes) / (metric(consumer, "fetch-total") - fetches);
    }

    private static double metric(KafkaConsumer<String, String> consumer, String name) {
        double sum = 0;
        for (Map.Entry<MetricName, ? extends Metric> entry : consumer.metrics().entrySet()) {
            MetricName found = entry.getKey();
            boolean isOfAll = !found.tags().containsKey("topic") && !found.tags().containsKey("node-id");
            if (found.name().equals(name) && isOfAll) {
                sum += (Double) entry.getValue().metricValue();
            }
        }
        return sum;
    }
}
