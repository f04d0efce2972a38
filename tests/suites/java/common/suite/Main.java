package suite;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;

/**
 * Runs scenarios side by side and tells on standard output how each ends, one JSON object a line,
 * in the form of Go's test2json: {@code {"Action":"pass","Test":"4.1.0 range: two share"}}.
 *
 * <p>Arguments: the server's address, a label to put before the names, the classes of scenarios
 * (separated by commas), how many run at once, and optionally a part of the names to run. It is NOT
 * a test framework, and it starts no server: whoever called it reads the lines.
 */
public final class Main {
    private static final int LIMIT_SECONDS = 75;

    private final String bootstrap;
    private final String label;
    private final Admin admin;

    private Main(String bootstrap, String label, Admin admin) {
        this.bootstrap = bootstrap;
        this.label = label;
        this.admin = admin;
    }

    public static void main(String[] arguments) throws Exception {
        List<Scenario> scenarios = new ArrayList<>();
        for (String name : arguments[2].split(",")) {
            Object source = Class.forName("suite." + name).getDeclaredConstructor().newInstance();
            scenarios.addAll(((Scenario.Source) source).scenarios());
        }
        String part = arguments.length > 4 ? arguments[4] : "";
        scenarios.removeIf(scenario -> !scenario.name().contains(part));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            new Main(arguments[0], arguments[1], admin)
                .run(scenarios, Integer.parseInt(arguments[3]));
        }
        Runtime.getRuntime().halt(0); // a scenario that hangs must not keep the process
    }

    private void run(List<Scenario> scenarios, int atOnce) throws InterruptedException {
        // all are told before one begins: so those that never began count as cut off
        scenarios.forEach(scenario -> tell("run", scenario, ""));
        List<Callable<Void>> tasks = new ArrayList<>();
        for (Scenario scenario : scenarios) {
            tasks.add(() -> {
                bounded(scenario);
                return null;
            });
        }
        Executors.newFixedThreadPool(atOnce).invokeAll(tasks);
    }

    /** Run one scenario in a thread of its own, so that its time can be bounded. */
    private void bounded(Scenario scenario) {
        long began = System.nanoTime();
        ExecutorService one = Executors.newSingleThreadExecutor();
        Future<String> verdict = one.submit(() -> verdict(scenario));
        String why;
        try {
            why = verdict.get(LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            why = "not done after " + LIMIT_SECONDS + " s";
        } catch (InterruptedException | ExecutionException error) {
            why = error.toString();
        }
        one.shutdownNow();
        double took = (System.nanoTime() - began) / 1e9;
        if (why != null) {
            tell("output", scenario, ",\"Output\":" + quoted(why));
        }
        tell(why == null ? "pass" : "fail", scenario, ",\"Elapsed\":%.3f".formatted(took));
    }

    /** Why a scenario failed, or null. */
    private String verdict(Scenario scenario) {
        try (Scene scene = new Scene(bootstrap, admin, scenario.name())) {
            scenario.body().run(scene);
            return null;
        } catch (AssertionError error) {
            return error.getMessage();
        } catch (Exception error) {
            return "%s at %s".formatted(error, place(error));
        }
    }

    /** The line of ours that an error came through. */
    private static String place(Throwable error) {
        for (StackTraceElement element : error.getStackTrace()) {
            if (element.getClassName().startsWith("suite.")) {
                return element.toString();
            }
        }
        return "?";
    }

    private void tell(String action, Scenario scenario, String more) {
        String line = "{\"Action\":\"%s\",\"Test\":%s%s}"
            .formatted(action, quoted(label + " " + scenario.name()), more);
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private static String quoted(String text) {
        StringBuilder all = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            boolean plain = each >= ' ' && each < 127 && each != '"' && each != '\\';
            all.append(plain ? String.valueOf(each) : "\\u%04x".formatted((int) each));
        }
        return all.append('"').toString();
    }
}
