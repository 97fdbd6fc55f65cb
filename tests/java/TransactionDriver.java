import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers, each under a name of its own, one step of a transaction per command. */
public final class TransactionDriver {
    private static final int WAIT_S_MAX = 60;
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();
    private static final Map<String, List<Future<RecordMetadata>>> SENT = new HashMap<>();

    private TransactionDriver() {}

    /** What to do with one producer. */
    private interface Step {
        void take(KafkaProducer<String, String> producer, JsonNode asked) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, CommandLoop.Command> commands = new HashMap<>();
        commands.put("open", TransactionDriver::open);
        add(commands, "init", (producer, asked) -> producer.initTransactions());
        add(commands, "begin", (producer, asked) -> producer.beginTransaction());
        add(commands, "send", TransactionDriver::send);
        add(commands, "flush", (producer, asked) -> flush(producer, asked.get("name").asText()));
        add(commands, "offsets", TransactionDriver::offsets);
        add(commands, "commit", (producer, asked) -> producer.commitTransaction());
        add(commands, "abort", (producer, asked) -> producer.abortTransaction());
        commands.put("close", asked -> {
            KafkaProducer<String, String> producer = PRODUCERS.remove(asked.get("name").asText());
            if (producer != null) {
                producer.close(Duration.ZERO);
            }
            return null;
        });
        CommandLoop.serve(commands);
    }

    private static void add(Map<String, CommandLoop.Command> commands, String name, Step step) {
        commands.put(name, asked -> {
            try {
                step.take(PRODUCERS.get(asked.get("name").asText()), asked);
                return null;
            } catch (ExecutionException | KafkaException error) {
                Throwable cause = error;
                while (Errors.forException(cause) == Errors.UNKNOWN_SERVER_ERROR && cause.getCause() != null) {
                    cause = cause.getCause();
                }
                throw new Exception(Errors.forException(cause).code() + " " + cause, cause);
            }
        });
    }

    private static JsonNode open(JsonNode asked) {
        Map<String, Object> settings = new HashMap<>();
        asked.get("settings").fields().forEachRemaining(field -> settings.put(field.getKey(), field.getValue().asText()));
        StringSerializer text = new StringSerializer();
        PRODUCERS.put(asked.get("name").asText(), new KafkaProducer<>(settings, text, text));
        SENT.put(asked.get("name").asText(), new ArrayList<>());
        return null;
    }

    private static void send(KafkaProducer<String, String> producer, JsonNode asked) {
        ProducerRecord<String, String> record = new ProducerRecord<>(
                asked.get("topic").asText(), asked.get("partition").asInt(), null, asked.get("value").asText());
        SENT.get(asked.get("name").asText()).add(producer.send(record));
    }

    private static void flush(KafkaProducer<String, String> producer, String name) throws Exception {
        List<Future<RecordMetadata>> sent = SENT.put(name, new ArrayList<>());
        producer.flush();
        for (Future<RecordMetadata> one : sent) {
            one.get(WAIT_S_MAX, TimeUnit.SECONDS);
        }
    }

    private static void offsets(KafkaProducer<String, String> producer, JsonNode asked) {
        TopicPartition partition = new TopicPartition(asked.get("topic").asText(), asked.get("partition").asInt());
        OffsetAndMetadata offset = new OffsetAndMetadata(asked.get("offset").asLong());
        producer.sendOffsetsToTransaction(
                Map.of(partition, offset), new ConsumerGroupMetadata(asked.get("group").asText()));
    }
}
