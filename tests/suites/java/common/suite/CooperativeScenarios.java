package suite;

import static suite.Scene.expect;
import static suite.Scene.quiet;
import static suite.Scene.same;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;

/** Cooperative members (KIP-429): only what moves is revoked, and the way there from range. */
public final class CooperativeScenarios implements Scenario.Source {
    private static final String[] COOPERATIVE = strategy(Assignors.COOPERATIVE);

    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("cooperative: two then three", CooperativeScenarios::twoThenThree),
            new Scenario("cooperative: member leaves", CooperativeScenarios::memberLeaves),
            new Scenario("cooperative: member dies", CooperativeScenarios::memberDies),
            new Scenario("cooperative: upgrade from range", CooperativeScenarios::upgrade),
            new Scenario("cooperative: alone in range group", CooperativeScenarios::aloneInRange),
            new Scenario("cooperative: subscription grows", CooperativeScenarios::grows));
    }

    private static String[] strategy(String assignors) {
        return new String[] {"partition.assignment.strategy", assignors};
    }

    private static void twoThenThree(Scene s) throws Exception {
        String topic = s.topic(6);
        s.produce(topic, 60);
        Member one = s.join(topic, COOPERATIVE);
        s.shares(6, one);
        Set<TopicPartition> before = one.assignment();
        Member two = s.join(topic, COOPERATIVE);
        s.shares(3, one, two);
        same(minus(before, one.assignment()), one.revoked(), "revoked from one");
        same(two.assignment(), one.revoked(), "moved to two");
        s.produce(topic, 60);
        Set<TopicPartition> ofOne = one.assignment();
        Set<TopicPartition> ofTwo = two.assignment();
        one.forget();
        two.forget();
        Member three = s.join(topic, COOPERATIVE);
        s.shares(2, one, two, three);
        same(minus(ofOne, one.assignment()), one.revoked(), "revoked from one");
        same(minus(ofTwo, two.assignment()), two.revoked(), "revoked from two");
        same(Set.of(), one.lost(), "lost by one");
        s.produce(topic, 60);
        s.consumedOnce(180);
        s.settled(one, two, three);
    }

    private static void memberLeaves(Scene s) throws Exception {
        String topic = s.topic(6);
        Member one = s.join(topic, COOPERATIVE);
        Member two = s.join(topic, COOPERATIVE);
        Member three = s.join(topic, COOPERATIVE);
        s.shares(2, one, two, three);
        s.produce(topic, 60);
        s.consumed(60);
        one.forget();
        three.forget();
        two.close();
        s.shares(3, one, three);
        same(Set.of(), one.revoked(), "revoked from one");
        same(Set.of(), three.revoked(), "revoked from three");
        s.produce(topic, 60);
        s.consumedOnce(120);
    }

    private static void memberDies(Scene s) throws Exception {
        String topic = s.topic(4);
        Member one = s.join(topic, COOPERATIVE);
        Member two = s.join(topic, "partition.assignment.strategy", Assignors.COOPERATIVE,
            "session.timeout.ms", "3000", "internal.leave.group.on.close", "false");
        s.shares(2, one, two);
        one.forget();
        two.close();
        s.shares(4, one);
        same(Set.of(), one.revoked(), "revoked from one");
    }

    /** The two rolling restarts of KIP-429, with records all the while. */
    private static void upgrade(Scene s) throws Exception {
        String topic = s.topic(6);
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            members.add(s.join(topic));
        }
        s.shares(2, members.toArray(new Member[0]));
        int produced = 60;
        s.produce(topic, 60);
        for (String step : List.of(Assignors.BOTH, Assignors.COOPERATIVE)) {
            for (int i = 0; i < 3; i++) {
                members.get(i).close();
                s.produce(topic, 60);
                produced += 60;
                members.set(i, s.join(topic, strategy(step)));
                s.shares(2, members.toArray(new Member[0]));
            }
        }
        s.consumedOnce(produced);
        Set<TopicPartition> before = members.get(0).assignment();
        members.get(0).forget();
        members.get(2).close();
        s.shares(3, members.get(0), members.get(1));
        same(Set.of(), members.get(0).revoked(), "revoked, now that all are cooperative");
        expect(members.get(0).assignment().containsAll(before), "kept: %s", members);
    }

    private static void aloneInRange(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic);
        s.shares(2, one);
        s.settled(one);
        Member two = s.join(topic, COOPERATIVE);
        s.untilFails(two, InconsistentGroupProtocolException.class);
        quiet(500, one);
    }

    private static void grows(Scene s) throws Exception {
        String first = s.topic("-a", 2);
        String second = s.topic("-b", 2);
        Member one = s.join(first, COOPERATIVE);
        Member two = s.join(first, COOPERATIVE);
        s.shares(1, one, two);
        one.forget();
        one.subscribe(first, second);
        two.subscribe(first, second);
        s.shares(2, one, two);
        s.produce(second, 20);
        s.consumedOnce(20);
    }

    private static Set<TopicPartition> minus(Set<TopicPartition> from, Set<TopicPartition> what) {
        Set<TopicPartition> rest = new HashSet<>(from);
        rest.removeAll(what);
        return rest;
    }
}
