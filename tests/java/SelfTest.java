import com.fasterxml.jackson.databind.node.TextNode;
import java.util.Map;

/** Misbehaves on request, so that the tests of tests/support/java.py can see what happens then. */
public final class SelfTest {
    private SelfTest() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            System.out.println(String.join("|", arguments));
            System.exit(arguments[0].equals("fail") ? 3 : 0);
        }
        CommandLoop.serve(Map.of(
                "echo", asked -> asked.get("text"),
                "print", asked -> {
                    System.out.println("this line is no answer");
                    return TextNode.valueOf("printed");
                },
                "throw", asked -> {
                    throw new IllegalStateException("on purpose");
                },
                "exit", asked -> {
                    System.err.println("last words");
                    Runtime.getRuntime().halt(7);
                    return null;
                },
                "hang", asked -> {
                    Thread.sleep(Long.MAX_VALUE);
                    return null;
                }));
    }
}
