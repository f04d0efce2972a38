package suite;

import static suite.Scene.expect;
import static suite.Scene.quiet;
import static suite.Scene.same;
import static suite.Scene.throwsError;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;

/** Static members (KIP-345): they come back unnoticed, are fenced, and expire. */
public final class StaticScenarios implements Scenario.Source {
    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("static: follower restarts", s -> restarts(s, Assignors.RANGE, false)),
            new Scenario("static: leader restarts", s -> restarts(s, Assignors.RANGE, true)),
            new Scenario("static cooperative: follower restarts",
                s -> restarts(s, Assignors.COOPERATIVE, false)),
            new Scenario("static cooperative: leader restarts",
                s -> restarts(s, Assignors.COOPERATIVE, true)),
            new Scenario("static: all restart in turn", StaticScenarios::allRestart),
            new Scenario("static: older is fenced in poll", StaticScenarios::fencedInPoll),
            new Scenario("static: older is fenced in commit", StaticScenarios::fencedInCommit),
            new Scenario("static: gone expires", StaticScenarios::goneExpires),
            new Scenario("static: beside dynamic", StaticScenarios::besideDynamic),
            new Scenario("static: returns while joining", StaticScenarios::returnsWhileJoining));
    }

    private static Member join(Scene s, String topic, String instance, String strategy)
            throws Exception {
        return s.join(topic, "group.instance.id", instance,
            "partition.assignment.strategy", strategy);
    }

    private static void restarts(Scene s, String strategy, boolean leader) throws Exception {
        String topic = s.topic(4);
        Member one = join(s, topic, "one", strategy);
        s.shares(4, one);
        Member two = join(s, topic, "two", strategy);
        s.shares(2, one, two);
        s.produce(topic, 40);
        s.consumed(40);
        s.settled(one, two);
        Member gone = leader ? one : two;
        Member stays = leader ? two : one;
        Set<TopicPartition> before = gone.assignment();
        Set<TopicPartition> kept = stays.assignment();
        int rebalances = stays.rebalances();
        int led = stays.led();
        gone.close();
        Member back = join(s, topic, leader ? "one" : "two", strategy);
        s.until("it is back", () -> back.assignment().equals(before));
        quiet(1_000, stays, back);
        same(rebalances, stays.rebalances(), "rebalances of the other");
        same(kept, stays.assignment(), "partitions of the other");
        same(led, stays.led(), "assignments that the other computed");
        s.produce(topic, 40);
        s.consumedOnce(80);
    }

    private static void allRestart(Scene s) throws Exception {
        String topic = s.topic(6);
        String[] names = {"one", "two", "three"};
        Member[] members = new Member[3];
        for (int i = 0; i < 3; i++) {
            members[i] = join(s, topic, names[i], Assignors.RANGE);
        }
        s.shares(2, members);
        s.settled(members);
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 3; i++) {
                Set<TopicPartition> before = members[i].assignment();
                members[i].close();
                s.produce(topic, 30);
                Member back = join(s, topic, names[i], Assignors.RANGE);
                members[i] = back;
                s.until("it is back", () -> back.assignment().equals(before));
                same(1, back.rebalances(), "rebalances of the one that is back");
            }
        }
        quiet(500, members);
        for (Member member : members) {
            same(1, member.rebalances(), "rebalances of all that are back");
        }
        s.consumedOnce(180);
    }

    private static void fencedInPoll(Scene s) throws Exception {
        String topic = s.topic(4);
        Member older = join(s, topic, "same", Assignors.RANGE);
        Member other = join(s, topic, "other", Assignors.RANGE);
        s.shares(2, older, other);
        Member newer = join(s, topic, "same", Assignors.RANGE);
        s.untilFails(older, FencedInstanceIdException.class);
        s.shares(2, newer, other);
        quiet(500, newer, other);
    }

    private static void fencedInCommit(Scene s) throws Exception {
        String topic = s.topic(2);
        // one that hardly beats, so that the commit is the first to be told
        Member older = s.join(topic, "group.instance.id", "same",
            "heartbeat.interval.ms", "9000", "session.timeout.ms", "30000");
        s.shares(2, older);
        older.stopPolling();
        Member newer = join(s, topic, "same", Assignors.RANGE);
        s.shares(2, newer);
        Map<TopicPartition, OffsetAndMetadata> offsets =
            Map.of(Scene.partition(topic, 0), new OffsetAndMetadata(0));
        throwsError(FencedInstanceIdException.class, () -> older.ask(consumer -> {
            consumer.commitSync(offsets);
            return null;
        }));
        same(Map.of(), s.committed(), "offsets by a fenced member");
        s.shares(2, newer);
    }

    private static void goneExpires(Scene s) throws Exception {
        String topic = s.topic(4);
        Member stays = join(s, topic, "stays", Assignors.RANGE);
        Member gone = s.join(topic,
            "group.instance.id", "gone", "session.timeout.ms", "4000");
        s.shares(2, stays, gone);
        s.settled(stays, gone);
        gone.close();
        quiet(1_500, stays);
        same(2, stays.assignment().size(), "partitions while the other may return");
        s.shares(4, stays);
        s.produce(topic, 20);
        s.consumedOnce(20);
    }

    private static void besideDynamic(Scene s) throws Exception {
        String topic = s.topic(4);
        Member dynamic = s.join(topic);
        Member fixed = join(s, topic, "fixed", Assignors.RANGE);
        s.shares(2, dynamic, fixed);
        s.settled(dynamic, fixed);
        Set<TopicPartition> before = fixed.assignment();
        int rebalances = dynamic.rebalances();
        fixed.close();
        Member back = join(s, topic, "fixed", Assignors.RANGE);
        s.until("it is back", () -> back.assignment().equals(before));
        same(rebalances, dynamic.rebalances(), "rebalances of the dynamic member");
        dynamic.close();
        s.shares(4, back);
    }

    /** A newcomer's rebalance is under way when the static member returns: it joins that one. */
    private static void returnsWhileJoining(Scene s) throws Exception {
        String topic = s.topic(6);
        Member one = join(s, topic, "one", Assignors.RANGE);
        Member two = join(s, topic, "two", Assignors.RANGE);
        s.shares(3, one, two);
        two.close();
        one.stopPolling();
        Member three = s.join(topic);
        Member back = join(s, topic, "two", Assignors.RANGE);
        Thread.sleep(500);
        expect(three.rebalances() == 0, "the join waits for one: %s", three);
        one.pollAgain();
        s.shares(2, one, back, three);
        s.produce(topic, 30);
        s.consumedOnce(30);
    }
}
