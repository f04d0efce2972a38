import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A worker on Java's consumer: the part of the vocabulary of tests/clients/workers that situations
 * use. A command is a line of flat JSON in, answers and events are lines of JSON out.
 */
public final class OnJava implements ConsumerRebalanceListener {
    private static final Pattern PAIR =
        Pattern.compile("\"([^\"]+)\": (?:\\[\"([^\"]*)\"\\]|\"([^\"]*)\"|([^,{}\\[\\]\"]+))");

    private final String bootstrap;
    private KafkaConsumer<String, String> consumer;

    private OnJava(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) {
        ConcurrentLinkedQueue<String> commands = new ConcurrentLinkedQueue<>();
        Thread reader = new Thread(() -> read(commands));
        reader.setDaemon(true);
        reader.start();
        new OnJava(arguments[0]).serve(commands);
    }

    private static void read(ConcurrentLinkedQueue<String> commands) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                commands.add(line);
            }
        } catch (java.io.IOException error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(0); // whoever started this is gone: neither leave nor commit
    }

    private void serve(ConcurrentLinkedQueue<String> commands) {
        while (true) {
            String line = commands.poll();
            try {
                if (line != null) {
                    answer(line);
                } else if (consumer != null && !consumer.subscription().isEmpty()) {
                    poll();
                } else {
                    Thread.sleep(20);
                }
            } catch (Exception error) {
                error.printStackTrace();
                String name = "\"error\": \"" + error.getClass().getSimpleName() + "\"";
                tell("{\"event\": \"failed\", " + name + "}");
                if (line != null) {
                    String number = wordsOf(line).get("id");
                    tell("{\"answer\": " + number + ", " + name + ", \"text\": \"\"}");
                }
            }
        }
    }

    private static Map<String, String> wordsOf(String line) {
        Map<String, String> words = new HashMap<>();
        Matcher pairs = PAIR.matcher(line);
        while (pairs.find()) {
            String text = pairs.group(2) != null ? pairs.group(2) : pairs.group(3);
            words.put(pairs.group(1), text != null ? text : pairs.group(4).trim());
        }
        return words;
    }

    private void answer(String line) throws Exception {
        Map<String, String> words = wordsOf(line);
        switch (words.get("do")) {
            case "start" -> start(words);
            case "commit" -> consumer.commitSync();
            case "stall" -> Thread.sleep((long) (1000 * Double.parseDouble(words.get("seconds"))));
            case "subscribe" -> consumer.subscribe(List.of(words.get("topics")), this);
            case "resubscribe" -> consumer.subscribe(List.of(words.get("topics")), this);
            case "enforce" -> consumer.enforceRebalance();
            case "unsubscribe" -> consumer.unsubscribe();
            case "close" -> {
                consumer.close();
                consumer = null;
            }
            default -> throw new IllegalArgumentException(line);
        }
        tell("{\"answer\": " + words.get("id") + ", \"result\": null}");
    }

    private void start(Map<String, String> words) {
        Map<String, Object> settings = new HashMap<>();
        for (Map.Entry<String, String> word : words.entrySet()) {
            if (word.getKey().contains(".")) {
                settings.put(word.getKey(), word.getValue());
            }
        }
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", words.get("group"));
        settings.put("session.timeout.ms", words.get("session_ms"));
        settings.put("heartbeat.interval.ms", words.get("heartbeat_ms"));
        settings.put("enable.auto.commit", words.get("auto_commit"));
        settings.put("auto.offset.reset", "earliest");
        if (!words.get("instance_id").equals("null")) {
            settings.put("group.instance.id", words.get("instance_id"));
        }
        if ("consumer".equals(words.get("group.protocol"))) { // the broker says how long these are
            settings.keySet().removeAll(List.of("session.timeout.ms", "heartbeat.interval.ms"));
        }
        consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(words.get("topics")), this);
    }

    private void poll() {
        List<String> records = new ArrayList<>();
        for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
            records.add(String.format(
                "[\"%s\", %d, %d, \"%s\"]",
                each.topic(), each.partition(), each.offset(), each.value()));
        }
        if (!records.isEmpty()) {
            tell("{\"event\": \"records\", \"records\": [" + String.join(", ", records) + "]}");
        }
    }

    /** Logs in with the token in the options of the JAAS configuration. */
    public static final class Bearer implements AuthenticateCallbackHandler, OAuthBearerToken {
        private static final long LIFETIME_MS = 3_000_000;
        private final long since = System.currentTimeMillis();
        private String token;

        @Override
        public void configure(
                Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
            token = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback each : callbacks) {
                if (!(each instanceof OAuthBearerTokenCallback asked)) {
                    throw new UnsupportedCallbackException(each);
                }
                asked.token(this);
            }
        }

        @Override
        public void close() { }

        @Override
        public String value() {
            return token;
        }

        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return since + LIFETIME_MS;
        }

        @Override
        public String principalName() {
            return "whoever the token says";
        }

        @Override
        public Long startTimeMs() {
            return since;
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", consumer.assignment());
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tell("revoked", partitions);
    }

    private static void tell(String event, Collection<TopicPartition> partitions) {
        List<String> places = new ArrayList<>();
        for (TopicPartition each : partitions) {
            places.add("[\"" + each.topic() + "\", " + each.partition() + "]");
        }
        String list = "[" + String.join(", ", places) + "]";
        tell("{\"event\": \"" + event + "\", \"partitions\": " + list + "}");
    }

    private static void tell(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }
}
