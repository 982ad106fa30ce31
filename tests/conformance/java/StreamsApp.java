import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * A Kafka Streams application under exactly_once_v2 whose output shows each repetition and each loss.
 *
 * <p>Every payment (any key, "account:amount") is repartitioned by its account, joined with the account's owner from a
 * table, and counted and summed per account in a store. Each payment yields one output "count:sum:owner", so the outputs of
 * an account count 1, 2, 3 … without a gap, and the last sum is the sum of all of its amounts.
 *
 * <p>Prints a line when it runs and one for each payment that it handles, so that a test can kill it in the middle.
 */
public final class StreamsApp {
    public static void main(String[] arguments) throws Exception {
        Properties config = Login.properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(arguments[2]).toString());
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // A payment waits for the table's records that are older than it.
        config.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, 2_000);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6_000);
        config.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        // A static member that comes back takes its old place at once.
        config.put(StreamsConfig.consumerPrefix("group.instance.id"), "only");
        config.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10_000);
        // What is handled is written at once, so a kill finds records in its transaction.
        config.put(StreamsConfig.producerPrefix("linger.ms"), 0);
        KafkaStreams streams = new KafkaStreams(topology(arguments[1]), config);
        streams.setUncaughtExceptionHandler(failure -> {
            System.out.println("failed " + failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
        System.in.read();
        streams.close(Duration.ofSeconds(20));
    }

    private static Topology topology(String name) {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> owners = builder.table(name + "-owners");
        builder.<String, String>stream(name + "-payments")
            .peek((key, payment) -> System.out.println("payment " + payment))
            .selectKey((key, payment) -> payment.substring(0, payment.indexOf(':')))
            .repartition()
            .join(owners, (payment, owner) -> payment.substring(payment.indexOf(':') + 1) + ":" + owner)
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(() -> "0:0:", StreamsApp::added, Materialized.as("balances"))
            .toStream()
            .to(name + "-balances");
        return builder.build();
    }

    /** "count:sum:owner" and one more "amount:owner". */
    private static String added(String account, String payment, String balance) {
        String[] before = balance.split(":", -1);
        String[] now = payment.split(":", -1);
        long count = Long.parseLong(before[0]) + 1;
        long sum = Long.parseLong(before[1]) + Long.parseLong(now[0]);
        return count + ":" + sum + ":" + now[1];
    }
}
