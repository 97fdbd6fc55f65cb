import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/**
 * Record batches through Kafka's own classes. Bytes are base64.
 *
 * write: {"batches": [batch]} gives {"bytes"}; read: {"bytes"} gives {"batches": [batch]}. A batch has the same field
 * names both ways; in a write every field but "records" (or "marker", or "is_empty") may be left out.
 * murmur2: {"keys", "partition_counts"} gives [{"key", "hash", "partitions": {count: partition}}].
 */
public final class RecordBatches {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private RecordBatches() {}

    public static void main(String[] arguments) throws Exception {
        CommandLoop.serve(Map.of(
                "write", RecordBatches::write, "read", RecordBatches::read, "murmur2", RecordBatches::murmur2));
    }

    private static JsonNode write(JsonNode asked) throws Exception {
        ByteBufferOutputStream out = new ByteBufferOutputStream(1024);
        for (JsonNode batch : asked.get("batches")) {
            out.write(batch.path("is_empty").asBoolean(false) ? writeEmptyBatch(batch) : writeBatch(batch));
        }
        ByteBuffer all = out.buffer();
        all.flip();
        return NODES.objectNode().put("bytes", Utils.toArray(all));
    }

    private static ByteBuffer writeBatch(JsonNode batch) throws Exception {
        try (MemoryRecordsBuilder builder = builderOf(batch)) {
            if (batch.hasNonNull("marker")) {
                ControlRecordType type = ControlRecordType.valueOf(batch.get("marker").asText().toUpperCase(Locale.ROOT));
                builder.appendEndTxnMarker(
                        batch.get("base_timestamp_ms").asLong(),
                        new EndTransactionMarker(type, batch.path("coordinator_epoch").asInt(0)));
            } else {
                appendRecords(builder, batch);
            }
            return builder.build().buffer();
        }
    }

    /** What compaction leaves of a producer's last batch when all its records are gone. */
    private static ByteBuffer writeEmptyBatch(JsonNode batch) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(
                buffer,
                RecordBatch.MAGIC_VALUE_V2,
                batch.get("producer_id").asLong(),
                (short) batch.get("producer_epoch").asInt(),
                batch.get("base_sequence").asInt(),
                batch.get("base_offset").asLong(),
                batch.get("last_offset").asLong(),
                batch.get("leader_epoch").asInt(),
                TimestampType.CREATE_TIME,
                batch.get("max_timestamp_ms").asLong(),
                batch.path("is_transactional").asBoolean(false),
                false);
        buffer.flip();
        return buffer;
    }

    private static MemoryRecordsBuilder builderOf(JsonNode batch) {
        String codec = batch.path("codec").asText("none");
        boolean logAppendTime = batch.path("timestamp_type").asText("create_time").equals("log_append_time");
        return new MemoryRecordsBuilder(
                new ByteBufferOutputStream(1024),
                RecordBatch.MAGIC_VALUE_V2,
                Compression.of(CompressionType.forName(codec)).build(),
                logAppendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
                batch.path("base_offset").asLong(0),
                logAppendTime ? batch.get("max_timestamp_ms").asLong() : RecordBatch.NO_TIMESTAMP,
                batch.path("producer_id").asLong(RecordBatch.NO_PRODUCER_ID),
                (short) batch.path("producer_epoch").asInt(RecordBatch.NO_PRODUCER_EPOCH),
                batch.path("base_sequence").asInt(RecordBatch.NO_SEQUENCE),
                batch.path("is_transactional").asBoolean(false),
                batch.hasNonNull("marker"),
                batch.path("leader_epoch").asInt(RecordBatch.NO_PARTITION_LEADER_EPOCH),
                Integer.MAX_VALUE,
                batch.path("delete_horizon_ms").asLong(RecordBatch.NO_TIMESTAMP));
    }

    private static void appendRecords(MemoryRecordsBuilder builder, JsonNode batch) throws Exception {
        long offset = batch.path("base_offset").asLong(0);
        for (JsonNode record : batch.get("records")) {
            offset = record.path("offset").asLong(offset);
            builder.appendWithOffset(
                    offset,
                    record.get("timestamp_ms").asLong(),
                    CommandLoop.bytes(record.path("key")),
                    CommandLoop.bytes(record.path("value")),
                    headersOf(record));
            offset++;
        }
    }

    private static Header[] headersOf(JsonNode record) throws Exception {
        List<Header> headers = new ArrayList<>();
        for (JsonNode pair : record.path("headers")) {
            headers.add(new RecordHeader(pair.get(0).asText(), CommandLoop.bytes(pair.get(1))));
        }
        return headers.toArray(new Header[0]);
    }

    private static JsonNode read(JsonNode asked) throws Exception {
        ArrayNode batches = NODES.arrayNode();
        ByteBuffer buffer = ByteBuffer.wrap(CommandLoop.bytes(asked.get("bytes")));
        MemoryRecords records = MemoryRecords.readableRecords(buffer);
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            batches.add(describe((DefaultRecordBatch) batch));
        }
        ObjectNode answer = NODES.objectNode().put("unread_bytes", records.sizeInBytes() - records.validBytes());
        answer.set("batches", batches);
        return answer;
    }

    private static ObjectNode describe(DefaultRecordBatch batch) {
        ObjectNode node = NODES.objectNode()
                .put("base_offset", batch.baseOffset())
                .put("size_bytes", batch.sizeInBytes())
                .put("leader_epoch", batch.partitionLeaderEpoch())
                .put("magic", batch.magic())
                .put("crc", batch.checksum())
                .put("codec", batch.compressionType().name)
                .put("timestamp_type", batch.timestampType().name().toLowerCase(Locale.ROOT))
                .put("is_transactional", batch.isTransactional())
                .put("is_control", batch.isControlBatch())
                .put("has_delete_horizon", batch.deleteHorizonMs().isPresent())
                .put("base_timestamp_ms", batch.baseTimestamp())
                .put("max_timestamp_ms", batch.maxTimestamp())
                .put("producer_id", batch.producerId())
                .put("producer_epoch", batch.producerEpoch())
                .put("base_sequence", batch.baseSequence())
                .put("last_sequence", batch.lastSequence())
                .put("last_offset", batch.lastOffset())
                .put("offset_next", batch.nextOffset())
                .put("record_count", batch.countOrNull());
        ArrayNode records = node.putArray("records");
        for (Record record : batch) {
            records.add(describe(record));
            if (batch.isControlBatch()) {
                EndTransactionMarker marker = EndTransactionMarker.deserialize(record);
                node.put("marker", marker.controlType().name().toLowerCase(Locale.ROOT));
                node.put("coordinator_epoch", marker.coordinatorEpoch());
            }
        }
        return node;
    }

    private static ObjectNode describe(Record record) {
        record.ensureValid();
        ObjectNode node = NODES.objectNode().put("offset", record.offset()).put("timestamp_ms", record.timestamp());
        node.put("key", record.hasKey() ? Utils.toArray(record.key()) : null);
        node.put("value", record.hasValue() ? Utils.toArray(record.value()) : null);
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return node;
    }

    private static JsonNode murmur2(JsonNode asked) throws Exception {
        ArrayNode answers = NODES.arrayNode();
        for (JsonNode key : asked.get("keys")) {
            byte[] bytes = CommandLoop.bytes(key);
            ObjectNode answer = answers.addObject().put("key", bytes).put("hash", Utils.murmur2(bytes));
            ObjectNode partitions = answer.putObject("partitions");
            for (JsonNode count : asked.get("partition_counts")) {
                partitions.put(count.asText(), BuiltInPartitioner.partitionForKey(bytes, count.asInt()));
            }
        }
        return answers;
    }
}
