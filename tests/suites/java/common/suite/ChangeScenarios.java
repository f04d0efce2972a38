package suite;

import static suite.Scene.expect;
import static suite.Scene.same;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;

/** Groups that are never at rest: many at once, closed while joining, hurried through changes. */
public final class ChangeScenarios implements Scenario.Source {
    private static final int SEED = 20;

    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("change: twelve join at once", ChangeScenarios::twelve),
            new Scenario("change: range, at random", s -> atRandom(s, Assignors.RANGE, false)),
            new Scenario("change: cooperative, at random",
                s -> atRandom(s, Assignors.COOPERATIVE, false)),
            new Scenario("change: static, at random", s -> atRandom(s, Assignors.RANGE, true)),
            new Scenario("change: static cooperative, at random",
                s -> atRandom(s, Assignors.COOPERATIVE, true)),
            new Scenario("change: closed while joining", ChangeScenarios::closedWhileJoining),
            new Scenario("change: fenced while joining", ChangeScenarios::fencedWhileJoining),
            new Scenario("change: other topics on return", ChangeScenarios::otherTopicsOnReturn),
            new Scenario("change: a topic is deleted", ChangeScenarios::topicDeleted),
            new Scenario("change: each its own topics", ChangeScenarios::eachItsOwn));
    }

    private static void twelve(Scene s) throws Exception {
        String topic = s.topic(12);
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            members.add(s.join(topic));
        }
        Member[] all = members.toArray(new Member[0]);
        s.shares(1, all);
        s.settled(all);
        same(12, AdminScenarios.described(s).members().size(), "members, none of them twice");
        s.produce(topic, 48);
        s.consumedOnce(48);
    }

    /** Members come, leave, vanish and return for a while, and records come all the time. */
    private static void atRandom(Scene s, String strategy, boolean fixed) throws Exception {
        String topic = s.topic(6);
        Random random = new Random(SEED);
        Member[] members = new Member[3];
        int produced = 0;
        for (int step = 0; step < 15; step++) {
            int which = random.nextInt(members.length);
            if (members[which] != null) {
                members[which].close();
            }
            boolean vanishes = random.nextInt(3) == 0;
            List<String> settings = new ArrayList<>(List.of(
                "partition.assignment.strategy", strategy, "session.timeout.ms", "2000",
                "internal.leave.group.on.close", String.valueOf(!vanishes)));
            if (fixed) {
                settings.addAll(List.of("group.instance.id", "instance-" + which));
            }
            members[which] = s.join(topic, settings.toArray(new String[0]));
            s.produce(topic, 30);
            produced += 30;
            Thread.sleep(random.nextInt(400));
        }
        for (int i = 0; i < members.length; i++) {
            if (members[i] == null) {
                members[i] = s.join(topic, "partition.assignment.strategy", strategy);
            }
        }
        s.shares(2, members);
        s.produce(topic, 30);
        s.consumed(produced + 30);
        s.settled(members);
        same(3, AdminScenarios.described(s).members().size(), "members, nobody forgotten");
    }

    /**
     * Who closes while it waits in a join phase has left when that is over: a LeaveGroup behind a
     * waiting JoinGroup counts although the client has hung up by then.
     */
    private static void closedWhileJoining(Scene s) throws Exception {
        String topic = s.topic(4);
        Member one = s.join(topic);
        s.shares(4, one);
        one.stopPolling();
        Member two = s.join(topic, "session.timeout.ms", "60000");
        Member three = s.join(topic);
        s.until("both wait", () -> AdminScenarios.described(s).members().size() == 3);
        two.close();
        one.pollAgain();
        s.shares(2, one, three);
        s.settled(one, three);
        same(2, AdminScenarios.described(s).members().size(), "members");
    }

    /** The newer of two with the same instance id takes the older's place while both join. */
    private static void fencedWhileJoining(Scene s) throws Exception {
        String topic = s.topic(4);
        Member one = s.join(topic);
        s.shares(4, one);
        one.stopPolling();
        Member older = s.join(topic, "group.instance.id", "same");
        s.until("the older waits", () -> AdminScenarios.described(s).members().size() == 2);
        Member newer = s.join(topic, "group.instance.id", "same");
        s.untilFails(older, FencedInstanceIdException.class);
        one.pollAgain();
        s.shares(2, one, newer);
        same(2, AdminScenarios.described(s).members().size(), "members");
    }

    /** A static member that returns with other topics does get them in the end. */
    private static void otherTopicsOnReturn(Scene s) throws Exception {
        String first = s.topic("-a", 4);
        String second = s.topic("-b", 2);
        Member one = s.join(first, "group.instance.id", "one");
        s.shares(4, one);
        Member two = s.join(first, "group.instance.id", "two");
        s.shares(2, one, two);
        s.settled(one, two);
        one.close();
        Member back = s.join(second, "group.instance.id", "one");
        s.until("its new topic", () -> topics(back.assignment()).equals(Set.of(second)));
        s.until("all of the old one for the other", () -> two.has(4));
        s.produce(first, 20);
        s.produce(second, 20);
        s.consumedOnce(40);
    }

    private static Set<String> topics(Set<TopicPartition> all) {
        return all.stream().map(partition -> partition.topic()).collect(Collectors.toSet());
    }

    private static void topicDeleted(Scene s) throws Exception {
        String kept = s.topic("-kept", 2);
        String gone = s.topic("-gone", 2);
        String[] fresh = {"metadata.max.age.ms", "500", "allow.auto.create.topics", "false"};
        Member one = s.member(fresh).subscribe(kept, gone);
        Member two = s.member(fresh).subscribe(kept, gone);
        s.shares(2, one, two);
        s.produce(gone, 20);
        s.consumed(20);
        one.commit();
        two.commit();
        same(2, s.committed().size(), "partitions with offsets");
        s.admin.deleteTopics(List.of(gone)).all().get();
        s.until("its partitions are given up", () ->
            one.has(1) && two.has(1) && topics(one.assignment()).equals(Set.of(kept)));
        s.until("its offsets are gone", () -> s.committed().isEmpty());
        s.produce(kept, 20);
        s.consumed(40);
    }

    /** Subscriptions that differ: every topic to those that want it. */
    private static void eachItsOwn(Scene s) throws Exception {
        String first = s.topic("-a", 2);
        String second = s.topic("-b", 2);
        String both = s.topic("-both", 2);
        Member one = s.member().subscribe(first, both);
        Member two = s.member().subscribe(second, both);
        s.shares(3, one, two);
        expect(topics(one.assignment()).equals(Set.of(first, both)), "its topics: %s", one);
        expect(topics(two.assignment()).equals(Set.of(second, both)), "its topics: %s", two);
        for (String topic : List.of(first, second, both)) {
            s.produce(topic, 20);
        }
        s.consumedOnce(60);
    }
}
