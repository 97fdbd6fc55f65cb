import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Bills orders with Kafka Streams, `exactly_once_v2`: input offsets, a table of what was billed and the bills are committed
 * in one transaction. An order that is worked on twice would be billed twice, and its count would say so.
 *
 * The argument is the folder for its state. An error ends the process, and its supervisor starts it again.
 */
public final class StreamsBilling {
    private StreamsBilling() {}

    public static void main(String[] arguments) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(System.getenv("SEMEL_INPUT_TOPIC"))
                .groupByKey()
                .count(Materialized.as(Stores.inMemoryKeyValueStore("billed")))
                .toStream()
                .mapValues((order, times) -> "billed " + order + ", time " + times)
                .to(System.getenv("SEMEL_OUTPUT_TOPIC"), Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(arguments[0]));
        CountDownLatch ended = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            ended.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        ended.await();
        Runtime.getRuntime().halt(1);
    }

    private static Properties settings(String state) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "billing");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("SEMEL_BOOTSTRAP_SERVERS"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        // Whoever is started again takes the place of its dead predecessor at once, and does not wait long for its
        // transaction, whose id nobody has any more.
        settings.put(StreamsConfig.mainConsumerPrefix("group.instance.id"), "billing");
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 5000);
        return settings;
    }
}
