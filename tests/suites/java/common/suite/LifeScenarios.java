package suite;

import static suite.Scene.expect;
import static suite.Scene.partition;
import static suite.Scene.quiet;
import static suite.Scene.same;
import static suite.Scene.throwsError;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.errors.WakeupException;

/** What a consumer does in its life besides polling: too slow, other topics, away and back. */
public final class LifeScenarios implements Scenario.Source {
    private static final String[] FRESH = {"metadata.max.age.ms", "500"};

    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("max poll interval exceeded", LifeScenarios::tooSlow),
            new Scenario("rebalance does not wait for the slow", LifeScenarios::slowInRebalance),
            new Scenario("subscription changes", LifeScenarios::subscriptionChanges),
            new Scenario("pattern finds a new topic", LifeScenarios::pattern),
            new Scenario("partitions are added", LifeScenarios::partitionsAdded),
            new Scenario("topic appears later", LifeScenarios::topicAppears),
            new Scenario("unsubscribe and subscribe", LifeScenarios::unsubscribe),
            new Scenario("wakeup during join", LifeScenarios::wakeup));
    }

    private static void tooSlow(Scene s) throws Exception {
        String topic = s.topic(4);
        Member quick = s.join(topic);
        Member slow = s.join(topic, "max.poll.interval.ms", "2000");
        s.shares(2, quick, slow);
        s.produce(topic, 40);
        s.consumed(40);
        var mine = slow.assignment();
        slow.forget();
        slow.stopPolling();
        s.shares(4, quick);
        throwsError(CommitFailedException.class, () -> slow.ask(consumer -> {
            consumer.commitSync(Map.of(mine.iterator().next(), new OffsetAndMetadata(1)));
            return null;
        }));
        slow.pollAgain();
        s.shares(2, quick, slow);
        same(mine, slow.lost(), "lost, not revoked");
    }

    /** A member that beats but does not rejoin in time is removed when the join phase ends. */
    private static void slowInRebalance(Scene s) throws Exception {
        String topic = s.topic(2);
        // the group waits for the longest max.poll.interval of its members
        String[] interval = {"max.poll.interval.ms", "3000"};
        Member slow = s.join(topic, interval);
        s.shares(2, slow);
        slow.stopPolling();
        Member quick = s.join(topic, interval);
        s.shares(2, quick);
        slow.pollAgain();
        s.shares(1, slow, quick);
    }

    private static void subscriptionChanges(Scene s) throws Exception {
        String first = s.topic("-a", 2);
        String second = s.topic("-b", 2);
        Member one = s.join(first);
        Member two = s.join(first);
        s.shares(1, one, two);
        int before = two.rebalances();
        one.subscribe(first, second);
        s.until("one has the new topic", () -> one.has(3));
        s.until("two takes part", () -> two.rebalances() > before);
        two.subscribe(second);
        s.until("one has all of the first", () -> one.assignment().containsAll(
            Set.of(partition(first, 0), partition(first, 1))));
        s.until("two has some of the second", () ->
            two.has(1) && two.assignment().iterator().next().topic().equals(second));
        s.produce(first, 20);
        s.produce(second, 20);
        s.consumedOnce(40);
    }

    private static void pattern(Scene s) throws Exception {
        s.topic("-a", 2);
        Pattern all = Pattern.compile(Pattern.quote(s.group) + "-[ab]");
        Member one = s.member(FRESH);
        one.asked(consumer -> consumer.subscribe(all, one));
        s.shares(2, one);
        Member two = s.member(FRESH);
        two.asked(consumer -> consumer.subscribe(all, two));
        s.shares(1, one, two);
        String second = s.topic("-b", 2);
        s.shares(2, one, two);
        s.settled(one, two);
        s.topic("-c", 2);
        quiet(1_500, one, two);
        s.produce(second, 20);
        s.consumedOnce(20);
    }

    private static void partitionsAdded(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic, FRESH);
        Member two = s.join(topic, FRESH);
        s.shares(1, one, two);
        s.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(6))).all().get();
        s.shares(3, one, two);
        s.produce(topic, 60);
        s.consumedOnce(60);
    }

    private static void topicAppears(Scene s) throws Exception {
        String name = s.group + "-later";
        Member one = s.join(name, "metadata.max.age.ms", "500",
            "allow.auto.create.topics", "false");
        s.until("a member without partitions", () -> one.rebalances() > 0);
        expect(one.has(0), "nothing to consume: %s", one);
        s.topic("-later", 3);
        s.shares(3, one);
    }

    private static void unsubscribe(Scene s) throws Exception {
        String topic = s.topic(4);
        Member one = s.join(topic);
        Member two = s.join(topic);
        s.shares(2, one, two);
        s.produce(topic, 40);
        s.consumed(40);
        one.stopPolling().ask(consumer -> {
            consumer.unsubscribe();
            return null;
        });
        s.shares(4, two);
        s.produce(topic, 40);
        s.consumed(80);
        one.subscribe(topic);
        s.shares(2, one, two);
        s.produce(topic, 40);
        s.consumedOnce(120);
    }

    /** A poll that waits for others to join is woken, and the next one goes on with that join. */
    private static void wakeup(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic);
        s.shares(2, one);
        one.stopPolling();
        Member two = s.member();
        Thread waker = new Thread(() -> {
            try {
                Thread.sleep(1_000);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            two.consumer.wakeup();
        });
        waker.start();
        throwsError(WakeupException.class, () -> two.ask(consumer -> {
            consumer.subscribe(List.of(topic), two);
            return consumer.poll(Duration.ofSeconds(20));
        }));
        waker.join();
        one.pollAgain();
        two.pollAgain();
        s.shares(1, one, two);
        s.produce(topic, 20);
        s.consumedOnce(20);
    }
}
