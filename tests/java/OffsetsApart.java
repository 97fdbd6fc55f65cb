import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Bills orders and believes itself exactly once: idempotent, transactional, reading committed records, its own id fenced.
 *
 * One mistake is in it: offsets are committed by the consumer, now and then, and not in the transaction that has the bills.
 * A process that is killed in between writes the same bills again. Any error ends it, and its supervisor starts it again.
 * With the argument "inside" the offsets are where they belong, and the mistake is gone.
 */
public final class OffsetsApart {
    private static final int RECORDS_PER_COMMIT = 1000;

    private OffsetsApart() {}

    public static void main(String[] arguments) {
        try {
            bill(arguments.length > 0 && arguments[0].equals("inside"));
        } catch (KafkaException error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void bill(boolean inside) {
        StringSerializer out = new StringSerializer();
        StringDeserializer in = new StringDeserializer();
        KafkaProducer<String, String> producer = new KafkaProducer<>(producerSettings(), out, out);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerSettings(), in, in);
        producer.initTransactions();
        consumer.subscribe(List.of(System.getenv("SEMEL_INPUT_TOPIC")));
        int uncommitted = 0;
        while (true) {
            ConsumerRecords<String, String> orders = consumer.poll(Duration.ofMillis(200));
            if (orders.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            for (ConsumerRecord<String, String> order : orders) {
                String bill = "billed " + order.value();
                producer.send(new ProducerRecord<>(System.getenv("SEMEL_OUTPUT_TOPIC"), order.key(), bill));
            }
            if (inside) {
                producer.sendOffsetsToTransaction(orders.nextOffsets(), consumer.groupMetadata());
            }
            producer.commitTransaction();
            uncommitted += orders.count();
            if (!inside && uncommitted >= RECORDS_PER_COMMIT) {
                consumer.commitSync();
                uncommitted = 0;
            }
        }
    }

    private static Map<String, Object> producerSettings() {
        return Map.of(
                "bootstrap.servers", System.getenv("SEMEL_BOOTSTRAP_SERVERS"),
                "transactional.id", "billing",
                "transaction.timeout.ms", "20000",
                "reconnect.backoff.max.ms", "200");
    }

    private static Map<String, Object> consumerSettings() {
        return Map.of(
                "bootstrap.servers", System.getenv("SEMEL_BOOTSTRAP_SERVERS"),
                "group.id", "billing",
                // Whoever is started again takes the place of its dead predecessor at once.
                "group.instance.id", "billing",
                "isolation.level", "read_committed",
                "enable.auto.commit", "false",
                "auto.offset.reset", "earliest",
                "max.poll.records", "10",
                "reconnect.backoff.max.ms", "200");
    }
}
