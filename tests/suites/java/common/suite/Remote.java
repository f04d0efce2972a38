package suite;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * A member in a process of its own: the other end of {@link Peer}.
 *
 * <p>Arguments: the topic, then settings as {@code name=value}. It tells on standard output
 * whatever changes, a word and its value a line: {@code assignment t-0 t-1}, {@code record t-0@5},
 * {@code rebalances 2}, {@code led 1}, {@code failure why}. It ends when its input does.
 */
public final class Remote {
    private final Map<String, String> told = new HashMap<>();
    private int records;

    private Remote() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Member member = new Member(settings).subscribe(arguments[0]);
        Remote remote = new Remote();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Thread teller = new Thread(() -> remote.tell(member));
        teller.setDaemon(true);
        teller.start();
        while (input.readLine() != null) {
            // nothing is ever said; the end is what counts
        }
        member.close();
        teller.interrupt();
        teller.join();
        Runtime.getRuntime().halt(0);
    }

    private void tell(Member member) {
        while (!Thread.currentThread().isInterrupted()) {
            tellOnce(member);
            try {
                Thread.sleep(20);
            } catch (InterruptedException error) {
                break;
            }
        }
        tellOnce(member);
    }

    private void tellOnce(Member member) {
        List<String> all = member.consumed();
        for (; records < all.size(); records++) {
            System.out.println("record " + all.get(records));
        }
        List<String> names = new ArrayList<>();
        for (TopicPartition partition : member.assignment()) {
            names.add(partition.toString());
        }
        changed("rebalances", String.valueOf(member.rebalances()));
        changed("led", String.valueOf(member.led()));
        changed("failure", member.failure() == null ? "" : member.failure().toString());
        changed("assignment", String.join(" ", names));
        System.out.flush();
    }

    private void changed(String word, String value) {
        if (!value.equals(told.put(word, value))) {
            System.out.println(word + " " + value);
        }
    }
}
