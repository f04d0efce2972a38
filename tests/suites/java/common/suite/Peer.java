package suite;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;

/**
 * A member in a process of its own with another version of the client, as {@link Remote} tells it.
 *
 * <p>The system property {@code suite.classpath.VERSION} says what the process is started with.
 */
final class Peer implements Participant {
    private final String version;
    private final Process process;
    private final Thread reader;
    private final List<String> consumed = new ArrayList<>();
    private volatile Set<TopicPartition> assignment = Set.of();
    private volatile int rebalances;
    private volatile int led;
    private volatile Throwable failure;

    Peer(String version, String topic, Map<String, Object> settings) throws IOException {
        this.version = version;
        String classpath = System.getProperty("suite.classpath." + version);
        List<String> command = new ArrayList<>(List.of(
            ProcessHandle.current().info().command().orElse("java"),
            "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "-cp", classpath, "suite.Remote", topic));
        settings.forEach((name, value) -> command.add(name + "=" + value));
        process = new ProcessBuilder(command)
            .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        reader = new Thread(this::read, "reader of " + version);
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                int space = line.indexOf(' ');
                heard(line.substring(0, space), line.substring(space + 1));
            }
        } catch (IOException error) {
            failure = error;
        }
        assignment = Set.of();
    }

    private void heard(String word, String value) {
        switch (word) {
            case "record" -> {
                synchronized (consumed) {
                    consumed.add(value);
                }
            }
            case "rebalances" -> rebalances = Integer.parseInt(value);
            case "led" -> led = Integer.parseInt(value);
            case "failure" -> failure = value.isEmpty() ? null : new IllegalStateException(value);
            case "assignment" -> assignment = partitions(value);
            default -> failure = new IllegalStateException("said " + word + " " + value);
        }
    }

    private static Set<TopicPartition> partitions(String value) {
        Set<TopicPartition> all = new HashSet<>();
        for (String name : value.isEmpty() ? new String[0] : value.split(" ")) {
            int dash = name.lastIndexOf('-');
            all.add(new TopicPartition(
                name.substring(0, dash), Integer.parseInt(name.substring(dash + 1))));
        }
        return all;
    }

    /** End the process at once, as the end of a machine would: nobody is told. */
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
        reader.join();
    }

    @Override
    public Set<TopicPartition> assignment() {
        return assignment;
    }

    @Override
    public List<String> consumed() {
        synchronized (consumed) {
            return new ArrayList<>(consumed);
        }
    }

    @Override
    public int rebalances() {
        return rebalances;
    }

    @Override
    public int led() {
        return led;
    }

    @Override
    public Throwable failure() {
        return failure;
    }

    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(15, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
            reader.join(5_000);
        } catch (IOException error) {
            failure = error;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            process.destroyForcibly();
        }
    }

    @Override
    public String toString() {
        return "%s%s rebalances=%d led=%d consumed=%d%s".formatted(
            version, assignment, rebalances, led, consumed().size(),
            failure == null ? "" : " failed: " + failure);
    }
}
