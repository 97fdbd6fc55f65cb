import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The admin half of ClientDriver: one short-lived admin client per command. */
@SuppressWarnings("deprecation") // the calls that both Java client 3.9 and 4.x have
public final class ClientAdmin {
    private interface Work {
        JsonNode with(Admin admin, JsonNode asked) throws Exception;
    }

    private ClientAdmin() {}

    static Map<String, CommandLoop.Command> commands() {
        Map<String, Work> works = new HashMap<>();
        works.put("create", ClientAdmin::create);
        works.put("delete", (admin, asked) -> done(admin.deleteTopics(List.of(topic(asked))).all()));
        works.put("grow", (admin, asked) -> done(admin.createPartitions(
                Map.of(topic(asked), NewPartitions.increaseTo(asked.get("partitions").asInt()))).all()));
        works.put("partition_counts", ClientAdmin::partitionCounts);
        works.put("topic_config", ClientAdmin::topicConfig);
        works.put("set_topic_config", ClientAdmin::setTopicConfig);
        works.put("groups", ClientAdmin::groups);
        works.put("group_size", (admin, asked) -> number(
                admin.describeConsumerGroups(List.of(group(asked))).all().get().get(group(asked)).members().size()));
        works.put("delete_group", (admin, asked) -> done(admin.deleteConsumerGroups(List.of(group(asked))).all()));
        works.put("committed", ClientAdmin::committed);
        works.put("delete_records", (admin, asked) -> done(admin.deleteRecords(
                Map.of(partition(asked), RecordsToDelete.beforeOffset(asked.get("before").asLong()))).all()));
        works.put("offsets", ClientAdmin::offsets);
        works.put("offset_at", (admin, asked) -> number(
                offset(admin, asked, OffsetSpec.forTimestamp(asked.get("timestamp_ms").asLong()))));
        Map<String, CommandLoop.Command> commands = new HashMap<>();
        works.forEach((name, work) -> commands.put(name, asked -> run(work, asked)));
        return commands;
    }

    private static JsonNode run(Work work, JsonNode asked) throws Exception {
        try (Admin admin = Admin.create(ClientDriver.settings(asked))) {
            return work.with(admin, asked);
        }
    }

    private static String topic(JsonNode asked) {
        return asked.get("topic").asText();
    }

    private static String group(JsonNode asked) {
        return asked.get("group").asText();
    }

    private static TopicPartition partition(JsonNode asked) {
        return new TopicPartition(topic(asked), asked.get("partition").asInt());
    }

    private static JsonNode done(org.apache.kafka.common.KafkaFuture<?> future) throws Exception {
        future.get();
        return null;
    }

    private static JsonNode number(long value) {
        return CommandLoop.JSON.getNodeFactory().numberNode(value);
    }

    private static Map<String, String> config(JsonNode asked) {
        Map<String, String> config = new HashMap<>();
        asked.get("config").fields().forEachRemaining(field -> config.put(field.getKey(), field.getValue().asText()));
        return config;
    }

    private static JsonNode create(Admin admin, JsonNode asked) throws Exception {
        NewTopic topic = new NewTopic(topic(asked), asked.get("partitions").asInt(), (short) 1);
        return done(admin.createTopics(List.of(topic.configs(config(asked)))).all());
    }

    private static JsonNode partitionCounts(Admin admin, JsonNode asked) throws Exception {
        Set<String> names = admin.listTopics().names().get();
        ObjectNode counts = CommandLoop.JSON.createObjectNode();
        admin.describeTopics(names).allTopicNames().get()
                .forEach((name, topic) -> counts.put(name, topic.partitions().size()));
        return counts;
    }

    private static ConfigResource resource(JsonNode asked) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic(asked));
    }

    private static JsonNode topicConfig(Admin admin, JsonNode asked) throws Exception {
        ObjectNode config = CommandLoop.JSON.createObjectNode();
        admin.describeConfigs(List.of(resource(asked))).all().get().get(resource(asked)).entries()
                .forEach(entry -> config.put(entry.name(), entry.value()));
        return config;
    }

    private static JsonNode setTopicConfig(Admin admin, JsonNode asked) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        config(asked).forEach((name, value) ->
                changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        return done(admin.incrementalAlterConfigs(Map.of(resource(asked), changes)).all());
    }

    private static JsonNode groups(Admin admin, JsonNode asked) throws Exception {
        ArrayNode names = CommandLoop.JSON.createArrayNode();
        admin.listConsumerGroups().all().get().forEach(group -> names.add(group.groupId()));
        return names;
    }

    private static JsonNode committed(Admin admin, JsonNode asked) throws Exception {
        OffsetAndMetadata found = admin.listConsumerGroupOffsets(group(asked))
                .partitionsToOffsetAndMetadata().get().get(partition(asked));
        return number(found == null ? -1 : found.offset());
    }

    private static JsonNode offsets(Admin admin, JsonNode asked) throws Exception {
        ArrayNode pair = CommandLoop.JSON.createArrayNode();
        pair.add(offset(admin, asked, OffsetSpec.earliest()));
        return pair.add(offset(admin, asked, OffsetSpec.latest()));
    }

    private static long offset(Admin admin, JsonNode asked, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition(asked), spec)).all().get().get(partition(asked)).offset();
    }
}
