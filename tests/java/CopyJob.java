import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies one topic to another, partition by partition, each poll in one transaction with its offsets.
 *
 * Arguments: bootstrap servers, source, target, transactional id, seed. It aborts one transaction in seven on purpose and
 * never ends by itself: it is killed. A line "abort" or "error ..." on stdout says what it did.
 */
public final class CopyJob {
    private static final int ABORT_ONE_IN = 7;

    private CopyJob() {}

    public static void main(String[] arguments) {
        Random random = new Random(Long.parseLong(arguments[4]));
        while (true) {
            try {
                copy(arguments[0], arguments[1], arguments[2], arguments[3], random);
            } catch (KafkaException error) {
                // Fenced, rebalanced or cut off: what was open is aborted by whoever starts next under this id.
                say("error " + error.getClass().getSimpleName() + " " + error.getMessage());
            }
        }
    }

    private static void copy(String bootstrap, String source, String target, String id, Random random) {
        StringSerializer out = new StringSerializer();
        StringDeserializer in = new StringDeserializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producerSettings(bootstrap, id), out, out);
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerSettings(bootstrap), in, in)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                ConsumerRecords<String, String> polled = consumer.poll(Duration.ofMillis(200));
                if (!polled.isEmpty()) {
                    copyOnce(producer, consumer, polled, target, random);
                }
            }
        }
    }

    private static void copyOnce(
            KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer,
            ConsumerRecords<String, String> polled,
            String target,
            Random random) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (ConsumerRecord<String, String> record : polled) {
            producer.send(new ProducerRecord<>(target, record.partition(), record.key(), record.value()));
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            next.put(partition, new OffsetAndMetadata(record.offset() + 1));
        }
        if (random.nextInt(ABORT_ONE_IN) == 0) {
            producer.flush();
            producer.abortTransaction();
            say("abort");
            rewind(consumer, polled);
            return;
        }
        try {
            producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
            producer.commitTransaction();
        } catch (CommitFailedException rebalanced) {
            producer.abortTransaction();
            say("rebalanced");
            throw rebalanced;
        }
    }

    private static void rewind(KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> polled) {
        for (TopicPartition partition : polled.partitions()) {
            if (consumer.assignment().contains(partition)) {
                consumer.seek(partition, polled.records(partition).get(0).offset());
            }
        }
    }

    private static Map<String, Object> producerSettings(String bootstrap, String id) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", "20000");
        settings.put("linger.ms", "2");
        settings.put("retry.backoff.ms", "20");
        settings.put("reconnect.backoff.ms", "20");
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }

    private static Map<String, Object> consumerSettings(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", "copiers");
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "2000");
        settings.put("session.timeout.ms", "1500");
        settings.put("heartbeat.interval.ms", "200");
        settings.put("retry.backoff.ms", "20");
        settings.put("reconnect.backoff.ms", "20");
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
