import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/** Reads records of __transaction_state with the broker's own classes, which come with the broker's jars at run time. */
public final class TransactionRecords {
    private static final String PACKAGE = "org.apache.kafka.coordinator.transaction.generated.";

    private TransactionRecords() {}

    public static void main(String[] arguments) throws Exception {
        CommandLoop.serve(Map.of("read", TransactionRecords::read));
    }

    /** The message as the broker prints it, and its bytes when the broker writes it again. */
    private static JsonNode read(JsonNode asked) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(CommandLoop.bytes(asked.get("bytes")));
        short version = buffer.getShort();
        Message message = (Message) Class.forName(PACKAGE + asked.get("type").asText())
                .getConstructor(Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(buffer), version);
        ObjectNode answer = CommandLoop.JSON.createObjectNode();
        answer.put("left", buffer.remaining());
        answer.put("text", message.toString());
        answer.put("bytes", MessageUtil.toVersionPrefixedBytes(version, message));
        return answer;
    }
}
