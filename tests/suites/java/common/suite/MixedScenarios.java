package suite;

import static suite.Scene.expect;
import static suite.Scene.same;

import java.util.ArrayList;
import java.util.List;

/**
 * Members of different versions in one group: those of this process and those of processes beside
 * it. The system property {@code suite.peers} names the other versions, oldest first.
 */
public final class MixedScenarios implements Scenario.Source {
    private static final List<String> PEERS = List.of(System.getProperty("suite.peers").split(","));
    private static final String OLD = PEERS.get(0);

    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("old leads", s -> oldLeads(s, Assignors.RANGE)),
            new Scenario("new leads", s -> newLeads(s, Assignors.RANGE)),
            new Scenario("cooperative: old leads", s -> oldLeads(s, Assignors.COOPERATIVE)),
            new Scenario("cooperative: new leads", s -> newLeads(s, Assignors.COOPERATIVE)),
            new Scenario("static: restarts as the other", MixedScenarios::changesVersion),
            new Scenario("old is killed", MixedScenarios::oldIsKilled),
            new Scenario("all versions", MixedScenarios::allVersions));
    }

    private static void oldLeads(Scene s, String strategy) throws Exception {
        String topic = s.topic(4);
        String[] settings = {"partition.assignment.strategy", strategy};
        Peer old = s.peer(OLD, topic, settings);
        s.shares(4, old);
        Member recent = s.join(topic, settings);
        s.shares(2, old, recent);
        s.produce(topic, 80);
        s.consumedOnce(80);
        same(0, recent.led(), "assignments by the new version");
        expect(old.led() > 1, "the old version leads: %s", old);
        old.close();
        s.shares(4, recent);
        s.produce(topic, 80);
        s.consumedOnce(160);
    }

    private static void newLeads(Scene s, String strategy) throws Exception {
        String topic = s.topic(4);
        String[] settings = {"partition.assignment.strategy", strategy};
        Member recent = s.join(topic, settings);
        s.shares(4, recent);
        Peer old = s.peer(OLD, topic, settings);
        s.shares(2, old, recent);
        s.produce(topic, 80);
        s.consumedOnce(80);
        same(0, old.led(), "assignments by the old version");
        recent.close();
        s.shares(4, old);
        s.produce(topic, 80);
        s.consumedOnce(160);
    }

    /** A static member is upgraded while it is away: nobody else notices. */
    private static void changesVersion(Scene s) throws Exception {
        String topic = s.topic(4);
        String[] fixed = {"group.instance.id", "fixed"};
        Peer old = s.peer(OLD, topic, fixed);
        s.shares(4, old);
        Member other = s.join(topic, "group.instance.id", "other");
        s.shares(2, old, other);
        s.settled(old, other);
        var before = old.assignment();
        int rebalances = other.rebalances();
        old.close();
        Member upgraded = s.join(topic, fixed);
        s.until("it is back", () -> upgraded.assignment().equals(before));
        Scene.quiet(800, upgraded, other);
        upgraded.close();
        Peer again = s.peer(OLD, topic, fixed);
        s.until("it is back, as it was", () -> again.assignment().equals(before));
        same(rebalances, other.rebalances(), "rebalances of the other");
        s.produce(topic, 40);
        s.consumedOnce(40);
    }

    private static void oldIsKilled(Scene s) throws Exception {
        String topic = s.topic(4);
        Peer old = s.peer(OLD, topic, "session.timeout.ms", "3000");
        s.shares(4, old);
        Member recent = s.join(topic);
        s.shares(2, old, recent);
        old.kill();
        s.shares(4, recent);
        s.produce(topic, 40);
        s.consumed(40);
        expect(recent.led() > 0, "somebody else leads: %s", recent);
    }

    private static void allVersions(Scene s) throws Exception {
        String topic = s.topic(12);
        List<Participant> all = new ArrayList<>();
        for (String version : PEERS) {
            all.add(s.peer(version, topic));
        }
        all.add(s.join(topic));
        s.shares(12 / all.size(), all.toArray(new Participant[0]));
        s.produce(topic, 120);
        s.consumedOnce(120);
        while (all.size() > 1) { // the oldest goes first, so every version leads once or could
            all.remove(0).close();
            s.shares(12 / all.size(), all.toArray(new Participant[0]));
            s.produce(topic, 120);
        }
        s.consumedOnce(120 * (PEERS.size() + 1));
    }
}
