package orders;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class OrdersTest {
    /** A silent member is removed when its session ends: 45 seconds, which pass at once here. */
    @Test
    void aConsumerHearsThatItLostItsPartitions() throws Exception {
        try (var broker = new TestBroker("orders:2"); var consumer = consumer(broker)) {
            var listener = new Listener();
            consumer.subscribe(List.of("orders"), listener);
            while (consumer.assignment().isEmpty()) {
                consumer.poll(Duration.ofMillis(20));
            }

            broker.post("time/advance", "{\"seconds\": 46, \"silent\": [\"shop\"]}");

            while (listener.lost.isEmpty()) {
                consumer.poll(Duration.ofMillis(20));
            }
            assertEquals(2, listener.lost.size());
            assertTrue(broker.get("groups/billing").contains("session_expired"));
        }
    }

    /** The coordinator has moved when the consumer commits: the commit must be tried again. */
    @Test
    void aCommitSurvivesAFailover() throws Exception {
        try (var broker = new TestBroker("orders:1"); var consumer = consumer(broker)) {
            broker.post("topics/orders/records", "{\"records\": [{\"value\": \"a\"}]}");
            broker.post("faults", """
                    {"effect": {"name": "error", "code": "NOT_COORDINATOR"},
                     "api": "OffsetCommit", "times": 1}""");
            consumer.subscribe(List.of("orders"));
            while (consumer.poll(Duration.ofMillis(20)).isEmpty()) {
                continue;
            }

            consumer.commitSync();

            assertTrue(broker.get("groups/billing/committed").contains("\"offset\": 1"));
            assertTrue(broker.get("faults").contains("\"hits\": 1"));
        }
    }

    private static KafkaConsumer<String, String> consumer(TestBroker broker) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", broker.bootstrapServers,
                "group.id", "billing",
                "client.id", "shop",
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false,
                "heartbeat.interval.ms", 50);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private static class Listener implements ConsumerRebalanceListener {
        final Set<TopicPartition> lost = ConcurrentHashMap.newKeySet();

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost.addAll(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
    }
}
