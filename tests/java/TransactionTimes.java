import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** How long transactions take that write one record to each partition, one transaction after another. */
public final class TransactionTimes {
    private TransactionTimes() {}

    public static void main(String[] arguments) throws Exception {
        CommandLoop.serve(Map.of("time", TransactionTimes::time));
    }

    private static JsonNode time(JsonNode asked) {
        StringSerializer text = new StringSerializer();
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", asked.get("bootstrap").asText(),
                "transactional.id", asked.get("transactional_id").asText(),
                "linger.ms", 0);
        ObjectNode times = CommandLoop.JSON.createObjectNode();
        ArrayNode flushes = times.putArray("flush_ms");
        ArrayNode commits = times.putArray("commit_ms");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            producer.initTransactions();
            int transactions = asked.get("transactions").asInt();
            for (int number = 0; number < transactions; number++) {
                producer.beginTransaction();
                long began = System.nanoTime();
                for (int partition = 0; partition < asked.get("partitions").asInt(); partition++) {
                    producer.send(new ProducerRecord<>(asked.get("topic").asText(), partition, null, "value"));
                }
                producer.flush();
                long flushed = System.nanoTime();
                producer.commitTransaction();
                flushes.add((flushed - began) / 1e6);
                commits.add((System.nanoTime() - flushed) / 1e6);
            }
            times.put("retries", total(producer, "record-retry-total"));
            times.put("errors", total(producer, "record-error-total"));
        }
        return times;
    }

    private static double total(KafkaProducer<String, String> producer, String name) {
        return producer.metrics().values().stream()
                .filter(metric -> metric.metricName().name().equals(name)
                        && metric.metricName().group().equals("producer-metrics"))
                .mapToDouble(metric -> (Double) metric.metricValue())
                .sum();
    }
}
