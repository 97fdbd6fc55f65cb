import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigException;

/** Which settings the Java clients know, and what a producer makes of those that it is given. No broker is needed. */
public final class ClientSettings {
    private static final String SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer";

    private ClientSettings() {}

    public static void main(String[] arguments) throws Exception {
        CommandLoop.serve(Map.of("names", ClientSettings::names, "make", ClientSettings::make));
    }

    private static JsonNode names(JsonNode asked) {
        TreeSet<String> every = new TreeSet<>(ProducerConfig.configNames());
        every.addAll(ConsumerConfig.configNames());
        every.addAll(AdminClientConfig.configNames());
        ArrayNode answer = CommandLoop.JSON.createArrayNode();
        every.forEach(answer::add);
        return answer;
    }

    private static JsonNode make(JsonNode asked) throws Exception {
        Properties given = new Properties();
        given.put("bootstrap.servers", "127.0.0.1:1");
        given.put("key.serializer", SERIALIZER);
        given.put("value.serializer", SERIALIZER);
        asked.path("settings").fields().forEachRemaining(each -> given.put(each.getKey(), each.getValue().asText()));
        ObjectNode answer = CommandLoop.JSON.createObjectNode();
        try (KafkaProducer<byte[], byte[]> made = new KafkaProducer<>(given)) {
            ProducerConfig config = new ProducerConfig(given);
            answer.put("enable.idempotence", String.valueOf(config.getBoolean("enable.idempotence")));
            answer.put("transaction.timeout.ms", String.valueOf(config.getInt("transaction.timeout.ms")));
            answer.put("delivery.timeout.ms", String.valueOf(deliveryTimeoutMs(made)));
            made.close(Duration.ZERO);
        } catch (Exception error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof ConfigException) {
                    return answer.put("refused", cause.getMessage());
                }
            }
            throw error;
        }
        return answer;
    }

    /** The timeout in force is kept in a private field; the configuration has the one that was written. */
    private static int deliveryTimeoutMs(KafkaProducer<byte[], byte[]> made) throws Exception {
        Object accumulator = read(KafkaProducer.class.getDeclaredField("accumulator"), made);
        return (int) read(accumulator.getClass().getDeclaredField("deliveryTimeoutMs"), accumulator);
    }

    private static Object read(Field field, Object owner) throws Exception {
        field.setAccessible(true);
        return field.get(owner);
    }
}
