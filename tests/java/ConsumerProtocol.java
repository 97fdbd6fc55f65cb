import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Members of groups of the consumer protocol; needs a Java client of 4.x. A member may copy in transactions. */
public final class ConsumerProtocol {
    private static final Duration WAIT_MAX = Duration.ofSeconds(60);
    private static final Map<String, KafkaConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
    private static final Map<String, ConsumerRecords<byte[], byte[]>> HELD = new HashMap<>();

    private ConsumerProtocol() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, CommandLoop.Command> commands = new HashMap<>();
        commands.put("join", ConsumerProtocol::join);
        commands.put("poll", asked -> received(member(asked).poll(wait(asked))));
        commands.put("assignment", ConsumerProtocol::assignment);
        commands.put("member_id", asked -> CommandLoop.JSON.valueToTree(member(asked).groupMetadata().memberId()));
        commands.put("commit", asked -> {
            member(asked).commitSync(WAIT_MAX);
            return null;
        });
        commands.put("leave", ConsumerProtocol::leave);
        commands.put("owner", ConsumerProtocol::owner);
        commands.put("work", ConsumerProtocol::work);
        commands.put("finish", ConsumerProtocol::finish);
        commands.put("describe", ConsumerProtocol::describe);
        commands.replaceAll((name, command) -> asked -> ClientDriver.coded(command, asked));
        CommandLoop.serve(commands);
    }

    private static String name(JsonNode asked) {
        return asked.get("member").asText();
    }

    private static Duration wait(JsonNode asked) {
        return Duration.ofMillis(asked.get("wait_ms").asLong());
    }

    private static KafkaConsumer<byte[], byte[]> member(JsonNode asked) {
        return MEMBERS.get(name(asked));
    }

    private static JsonNode join(JsonNode asked) {
        ByteArrayDeserializer plain = new ByteArrayDeserializer();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(ClientDriver.settings(asked), plain, plain);
        List<String> topics = new ArrayList<>();
        asked.get("topics").forEach(topic -> topics.add(topic.asText()));
        if (asked.get("pattern").isNull()) {
            consumer.subscribe(topics);
        } else {
            consumer.subscribe(new SubscriptionPattern(asked.get("pattern").asText()));
        }
        MEMBERS.put(name(asked), consumer);
        return null;
    }

    private static JsonNode leave(JsonNode asked) {
        MEMBERS.remove(name(asked)).close();
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.remove(name(asked));
        if (producer != null) {
            producer.close(Duration.ZERO);
        }
        return null;
    }

    private static JsonNode assignment(JsonNode asked) {
        ArrayNode pairs = CommandLoop.JSON.createArrayNode();
        member(asked).assignment().forEach(one -> pairs.addArray().add(one.topic()).add(one.partition()));
        return pairs;
    }

    private static ArrayNode received(ConsumerRecords<byte[], byte[]> polled) {
        ArrayNode values = CommandLoop.JSON.createArrayNode();
        polled.forEach(record -> values.add(text(record)));
        return values;
    }

    private static String text(ConsumerRecord<byte[], byte[]> record) {
        return new String(record.value(), StandardCharsets.UTF_8);
    }

    /** Give a member a transactional producer. */
    private static JsonNode owner(JsonNode asked) {
        ByteArraySerializer plain = new ByteArraySerializer();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(ClientDriver.settings(asked), plain, plain);
        producer.initTransactions();
        PRODUCERS.put(name(asked), producer);
        return null;
    }

    /** Read some records and write them on, in a transaction that stays open; says how many. */
    private static JsonNode work(JsonNode asked) {
        ConsumerRecords<byte[], byte[]> records = member(asked).poll(wait(asked));
        HELD.put(name(asked), records);
        if (!records.isEmpty()) {
            KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(name(asked));
            producer.beginTransaction();
            records.forEach(record -> producer.send(new ProducerRecord<>(asked.get("to").asText(), record.value())));
            producer.flush();
        }
        return CommandLoop.JSON.valueToTree(records.count());
    }

    /** Add the offsets as the member that read them, and commit; abort and go back when that is refused. */
    private static JsonNode finish(JsonNode asked) {
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        Map<TopicPartition, Long> first = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : HELD.remove(name(asked))) {
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            next.put(partition, new OffsetAndMetadata(record.offset() + 1));
            first.putIfAbsent(partition, record.offset());
        }
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(name(asked));
        try {
            producer.sendOffsetsToTransaction(next, member(asked).groupMetadata());
            producer.commitTransaction();
        } catch (RuntimeException refused) {
            producer.abortTransaction();
            first.keySet().retainAll(member(asked).assignment());
            first.forEach(member(asked)::seek);
            throw refused;
        }
        return null;
    }

    private static JsonNode describe(JsonNode asked) throws Exception {
        try (Admin admin = Admin.create(ClientDriver.settings(asked))) {
            String group = asked.get("group").asText();
            ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            ObjectNode described = CommandLoop.JSON.createObjectNode();
            described.put("type", found.type().toString()).put("state", found.groupState().toString());
            described.put("assignor", found.partitionAssignor()).put("members", found.members().size());
            return described;
        }
    }
}
