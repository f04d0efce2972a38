package orders;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A Groupkeeper process, and what its control port does: see docs/testing-control.md. */
class TestBroker implements AutoCloseable {
    private static final Pattern READY = Pattern.compile("kafka=(\\S+) .*control=(\\S+)");

    private final HttpClient http = HttpClient.newHttpClient();
    private final Process process;
    private final String control;
    final String bootstrapServers;

    TestBroker(String... topics) throws IOException {
        String program = System.getenv().getOrDefault("GROUPKEEPER", "groupkeeper");
        List<String> command = new ArrayList<>(List.of(program, "serve", "--dev",
                "--listen", "127.0.0.1:0", "--http", "off", "--control", "127.0.0.1:0"));
        for (String topic : topics) {
            command.addAll(List.of("--topic", topic));
        }
        Path log = Files.createTempFile("groupkeeper", ".log");
        process = new ProcessBuilder(command).redirectError(log.toFile()).start();
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        Matcher ready = READY.matcher(String.valueOf(line));
        if (!ready.find()) {
            process.destroyForcibly().onExit().join();
            throw new IOException("the broker is not ready: " + Files.readString(log));
        }
        log.toFile().deleteOnExit();
        bootstrapServers = ready.group(1);
        control = "http://" + ready.group(2) + "/control/v1/";
    }

    String post(String path, String body) throws Exception {
        return ask(HttpRequest.newBuilder().POST(HttpRequest.BodyPublishers.ofString(body)), path);
    }

    String get(String path) throws Exception {
        return ask(HttpRequest.newBuilder(), path);
    }

    private String ask(HttpRequest.Builder request, String path) throws Exception {
        request.uri(URI.create(control + path)).header("Content-Type", "application/json");
        var answer = http.send(request.build(), BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new AssertionError(answer.body());
        }
        return answer.body();
    }

    @Override
    public void close() throws InterruptedException {
        process.destroy();
        process.waitFor();
    }
}
