import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * One JVM that answers many commands: a JSON object per line on stdin, a JSON object per line on stdout.
 *
 * Asked {"command": "read", ...}, it answers {"result": ...}, or {"error": class name, "message": text} when the command
 * threw. The loop ends when stdin does. Whatever the program prints goes to stderr, so that stdout holds answers only.
 */
public final class CommandLoop {
    public static final ObjectMapper JSON = new ObjectMapper();

    /** What a program does with one command. */
    public interface Command {
        JsonNode answer(JsonNode asked) throws Exception;
    }

    private CommandLoop() {}

    public static void serve(Map<String, Command> commands) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answerOne(commands, line)));
        }
    }

    private static ObjectNode answerOne(Map<String, Command> commands, String line) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            JsonNode asked = JSON.readTree(line);
            Command command = commands.get(asked.path("command").asText());
            if (command == null) {
                throw new IllegalArgumentException("no such command; there are " + commands.keySet());
            }
            answer.set("result", command.answer(asked));
        } catch (Exception | LinkageError error) {
            error.printStackTrace();
            answer.put("error", error.getClass().getName());
            answer.put("message", String.valueOf(error.getMessage()));
        }
        return answer;
    }

    /** Base64 text to bytes; JSON null or a missing field to null. */
    public static byte[] bytes(JsonNode field) throws Exception {
        return field.isMissingNode() || field.isNull() ? null : field.binaryValue();
    }
}
