import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's Java producer, consumer and admin client, moved by commands; settings come with each command. */
public final class ClientDriver {
    static final int SEND_S_MAX = 60;
    static final Map<String, KafkaConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();

    private ClientDriver() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, CommandLoop.Command> commands = new HashMap<>(ClientAdmin.commands());
        commands.put("produce", ClientDriver::produce);
        commands.put("consume", ClientDriver::consume);
        commands.put("join", ClientDriver::join);
        commands.put("poll", asked -> received(member(asked).poll(wait(asked))));
        commands.put("assignment", asked -> partitions(member(asked).assignment()));
        commands.put("commit", asked -> {
            member(asked).commitSync(Duration.ofSeconds(SEND_S_MAX));
            return null;
        });
        commands.put("leave", asked -> {
            MEMBERS.remove(asked.get("member").asText()).close();
            return null;
        });
        commands.replaceAll((name, command) -> asked -> coded(command, asked));
        CommandLoop.serve(commands);
    }

    /** Say Kafka's number of an error in front of its message, which Java's class name does not tell. */
    static JsonNode coded(CommandLoop.Command command, JsonNode asked) throws Exception {
        try {
            return command.answer(asked);
        } catch (ExecutionException | KafkaException error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            // The consumer has an exception of its own for this one, which Errors does not know.
            Errors known = cause instanceof OffsetOutOfRangeException
                    ? Errors.OFFSET_OUT_OF_RANGE : Errors.forException(cause);
            throw new Exception(known.code() + " " + cause, cause);
        }
    }

    static Map<String, Object> settings(JsonNode asked) {
        Map<String, Object> settings = new HashMap<>();
        asked.get("settings").fields().forEachRemaining(field -> settings.put(field.getKey(), field.getValue().asText()));
        return settings;
    }

    static Duration wait(JsonNode asked) {
        return Duration.ofMillis(asked.get("wait_ms").asLong());
    }

    private static JsonNode produce(JsonNode asked) throws Exception {
        String topic = asked.get("topic").asText();
        ArrayNode offsets = CommandLoop.JSON.createArrayNode();
        ByteArraySerializer plain = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings(asked), plain, plain)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : asked.get("records")) {
                sent.add(producer.send(draft(topic, record)));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                offsets.add(one.get(SEND_S_MAX, TimeUnit.SECONDS).offset());
            }
        }
        return offsets;
    }

    private static ProducerRecord<byte[], byte[]> draft(String topic, JsonNode record) throws Exception {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), CommandLoop.bytes(header.get(1))));
        }
        return new ProducerRecord<>(
                topic,
                record.get("partition").asInt(),
                record.get("timestamp_ms").asLong(),
                CommandLoop.bytes(record.get("key")),
                CommandLoop.bytes(record.get("value")),
                headers);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode asked) {
        ByteArrayDeserializer plain = new ByteArrayDeserializer();
        return new KafkaConsumer<>(settings(asked), plain, plain);
    }

    private static JsonNode consume(JsonNode asked) {
        int wanted = asked.get("count").asInt();
        long deadline = System.nanoTime() + wait(asked).toNanos();
        ArrayNode got = CommandLoop.JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(asked)) {
            Map<TopicPartition, Long> start = new HashMap<>();
            asked.get("start").forEach(pair -> start.put(
                    new TopicPartition(asked.get("topic").asText(), pair.get(0).asInt()), pair.get(1).asLong()));
            consumer.assign(start.keySet());
            start.forEach(consumer::seek);
            while (got.size() < wanted && System.nanoTime() < deadline) {
                got.addAll(received(consumer.poll(Duration.ofMillis(100))));
            }
        }
        return got;
    }

    private static JsonNode join(JsonNode asked) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(asked);
        List<String> topics = new ArrayList<>();
        asked.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer.subscribe(topics);
        MEMBERS.put(asked.get("member").asText(), consumer);
        return null;
    }

    private static KafkaConsumer<byte[], byte[]> member(JsonNode asked) {
        return MEMBERS.get(asked.get("member").asText());
    }

    private static ArrayNode partitions(Collection<TopicPartition> assigned) {
        ArrayNode pairs = CommandLoop.JSON.createArrayNode();
        assigned.forEach(one -> pairs.addArray().add(one.topic()).add(one.partition()));
        return pairs;
    }

    private static ArrayNode received(ConsumerRecords<byte[], byte[]> polled) {
        ArrayNode records = CommandLoop.JSON.createArrayNode();
        for (ConsumerRecord<byte[], byte[]> record : polled) {
            ObjectNode one = records.addObject();
            one.put("partition", record.partition()).put("offset", record.offset());
            one.put("timestamp_ms", record.timestamp()).put("key", record.key()).put("value", record.value());
            ArrayNode headers = one.putArray("headers");
            record.headers().forEach(header -> headers.addArray().add(header.key()).add(header.value()));
        }
        return records;
    }
}
