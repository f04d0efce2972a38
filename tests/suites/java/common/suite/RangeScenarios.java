package suite;

import static suite.Scene.expect;
import static suite.Scene.partition;
import static suite.Scene.quiet;
import static suite.Scene.same;

import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.errors.InvalidSessionTimeoutException;

/** Eager members: they share, leave, die, and agree on a protocol. */
public final class RangeScenarios implements Scenario.Source {
    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("range: two share", RangeScenarios::twoShare),
            new Scenario("range: three and one leaves", RangeScenarios::threeAndOneLeaves),
            new Scenario("range: member dies", RangeScenarios::memberDies),
            new Scenario("range: leader leaves", RangeScenarios::leaderLeaves),
            new Scenario("range: more members than partitions", RangeScenarios::moreThanPartitions),
            new Scenario("protocol: one that all know", RangeScenarios::protocolAllKnow),
            new Scenario("protocol: none in common", RangeScenarios::protocolNobodyShares),
            new Scenario("sticky: keeps partitions", RangeScenarios::stickyKeeps),
            new Scenario("session timeout too short", RangeScenarios::sessionTooShort));
    }

    private static void twoShare(Scene s) throws Exception {
        String topic = s.topic(4);
        s.produce(topic, 100);
        Member one = s.join(topic);
        s.shares(4, one);
        Member two = s.join(topic);
        s.shares(2, one, two);
        same(Scene.partitions(topic, List.of(0, 1, 2, 3)), one.revoked(), "taken, as eager does");
        s.produce(topic, 100);
        s.consumedOnce(200);
        expect(two.consumed().size() > 0, "both consume: %s", two);
        s.settled(one, two);
    }

    private static void threeAndOneLeaves(Scene s) throws Exception {
        String topic = s.topic(6);
        Member one = s.join(topic);
        Member two = s.join(topic);
        Member three = s.join(topic);
        s.shares(2, one, two, three);
        s.produce(topic, 120);
        s.consumed(120);
        long before = System.nanoTime();
        two.close();
        s.shares(3, one, three);
        long took = (System.nanoTime() - before) / 1_000_000;
        expect(took < 8_000, "a leave is quicker than the session of 10 s: %d ms", took);
        s.produce(topic, 120);
        s.consumedOnce(240);
    }

    private static void memberDies(Scene s) throws Exception {
        String topic = s.topic(4);
        Member one = s.join(topic);
        Member two = s.join(topic,
            "session.timeout.ms", "3000", "internal.leave.group.on.close", "false");
        s.shares(2, one, two);
        s.produce(topic, 100);
        s.consumed(100);
        two.commit();
        two.close();
        long before = System.nanoTime();
        s.shares(4, one);
        long took = (System.nanoTime() - before) / 1_000_000;
        expect(took > 1_500, "only its session can have ended it: %d ms", took);
        s.produce(topic, 100);
        s.consumedOnce(200);
    }

    private static void leaderLeaves(Scene s) throws Exception {
        String topic = s.topic(4);
        Member one = s.join(topic);
        s.shares(4, one);
        Member two = s.join(topic);
        s.shares(2, one, two);
        same(0, two.led(), "assignments by the follower");
        one.close();
        s.shares(4, two);
        expect(two.led() > 0, "the follower leads now: %s", two);
        Member three = s.join(topic);
        s.shares(2, two, three);
        same(0, three.led(), "assignments by the newcomer");
    }

    private static void moreThanPartitions(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic);
        Member two = s.join(topic);
        s.shares(1, one, two);
        Member three = s.join(topic);
        s.until("three takes part", () -> three.rebalances() > 0);
        s.until("one of them has none", () ->
            one.assignment().size() + two.assignment().size() + three.assignment().size() == 2);
        s.produce(topic, 50);
        s.consumedOnce(50);
    }

    private static void protocolAllKnow(Scene s) throws Exception {
        String topic = s.topic(4);
        String roundRobin = RoundRobinAssignor.class.getName();
        Member one = s.join(topic,
            "partition.assignment.strategy", roundRobin + "," + Assignors.RANGE);
        s.shares(4, one);
        same(0, one.led(), "range is not its first choice");
        Member two = s.join(topic);
        s.shares(2, one, two);
        expect(one.led() + two.led() > 0, "range is what both know");
        same(Set.of(Set.of(partition(topic, 0), partition(topic, 1)),
            Set.of(partition(topic, 2), partition(topic, 3))),
            Set.of(one.assignment(), two.assignment()), "partitions in ranges");
    }

    private static void protocolNobodyShares(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic);
        s.shares(2, one);
        s.settled(one);
        Member two = s.join(topic,
            "partition.assignment.strategy", RoundRobinAssignor.class.getName());
        s.untilFails(two, InconsistentGroupProtocolException.class);
        quiet(500, one);
        s.shares(2, one);
    }

    private static void stickyKeeps(Scene s) throws Exception {
        String topic = s.topic(6);
        String[] sticky = {"partition.assignment.strategy", StickyAssignor.class.getName()};
        Member one = s.join(topic, sticky);
        Member two = s.join(topic, sticky);
        s.shares(3, one, two);
        var before = two.assignment();
        Member three = s.join(topic, sticky);
        s.shares(2, one, two, three);
        expect(before.containsAll(two.assignment()), "two keeps two of its three: %s", two);
        s.produce(topic, 60);
        s.consumedOnce(60);
    }

    private static void sessionTooShort(Scene s) throws Exception {
        Member one = s.join(s.topic(1),
            "session.timeout.ms", "500", "heartbeat.interval.ms", "100");
        s.untilFails(one, InvalidSessionTimeoutException.class);
    }
}
