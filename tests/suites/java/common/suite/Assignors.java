package suite;

import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;

/** Kafka's assignors, counting how often they are asked: only the leader of a group asks its. */
final class Assignors {
    /** The setting that carries the counter, an AtomicInteger. */
    static final String COUNTER = "suite.led";

    static final String RANGE = CountingRange.class.getName();
    static final String COOPERATIVE = CountingCooperative.class.getName();
    static final String BOTH = COOPERATIVE + "," + RANGE;

    private Assignors() {}

    /** Range, by Kafka's name for it. */
    public static final class CountingRange extends RangeAssignor implements Configurable {
        private AtomicInteger asked = new AtomicInteger();

        @Override
        public void configure(Map<String, ?> settings) {
            asked = (AtomicInteger) settings.get(COUNTER);
        }

        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
            asked.incrementAndGet();
            return super.assign(metadata, subscriptions);
        }
    }

    /** Cooperative-sticky, by Kafka's name for it. */
    public static final class CountingCooperative extends CooperativeStickyAssignor
            implements Configurable {
        private AtomicInteger asked = new AtomicInteger();

        @Override
        public void configure(Map<String, ?> settings) {
            asked = (AtomicInteger) settings.get(COUNTER);
        }

        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
            asked.incrementAndGet();
            return super.assign(metadata, subscriptions);
        }
    }
}
