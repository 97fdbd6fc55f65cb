import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/** Reads records of __consumer_offsets with the broker's own classes, which come with the broker's jars at run time. */
public final class GroupRecords {
    private static final String PACKAGE = "org.apache.kafka.coordinator.group.generated.";
    private static final short VERSION = 0;

    private GroupRecords() {}

    public static void main(String[] arguments) throws Exception {
        CommandLoop.serve(Map.of("read", GroupRecords::read));
    }

    /** The message as the broker prints it, and its bytes when the broker writes it again. */
    private static JsonNode read(JsonNode asked) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(CommandLoop.bytes(asked.get("bytes")));
        short prefix = buffer.getShort(); // of a key its type, of a value its version
        String type = asked.get("type").asText();
        ApiMessage message = (ApiMessage) Class.forName(PACKAGE + type)
                .getConstructor(Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(buffer), VERSION);
        ObjectNode answer = CommandLoop.JSON.createObjectNode();
        answer.put("prefix", prefix).put("left", buffer.remaining()).put("text", message.toString());
        answer.put("bytes", type.endsWith("Key")
                ? MessageUtil.toCoordinatorTypePrefixedBytes(message)
                : MessageUtil.toVersionPrefixedBytes(VERSION, message));
        return answer;
    }
}
