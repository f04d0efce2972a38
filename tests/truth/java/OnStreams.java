import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;

/**
 * An instance of an application of Kafka Streams that counts the values of a topic until standard
 * input ends: then it is closed. Arguments: bootstrap server, topic, folder, client id, and `warm`
 * for one that trusts no task before it has caught up, or `static` for one whose thread has the
 * client id with `-1` as its instance id.
 */
public final class OnStreams {
    private OnStreams() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("application.id", "counter");
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[2]);
        settings.put("client.id", arguments[3]);
        settings.put("session.timeout.ms", 6000);
        settings.put("heartbeat.interval.ms", 500);
        settings.put("commit.interval.ms", 500);
        settings.put("auto.offset.reset", "earliest");
        if (arguments.length > 4 && arguments[4].equals("static")) {
            settings.put("group.instance.id", arguments[3]);
        } else if (arguments.length > 4) {
            settings.put("acceptable.recovery.lag", 0);
            settings.put("probing.rebalance.interval.ms", 60000);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[1], Consumed.with(Serdes.ByteArray(), Serdes.String()))
            .groupBy((key, value) -> value, org.apache.kafka.streams.kstream.Grouped.with(
                Serdes.String(), Serdes.String()))
            .count();
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
        while (System.in.read() >= 0) {
            continue;
        }
        streams.close(Duration.ofSeconds(30));
        System.out.println("closed");
    }
}
