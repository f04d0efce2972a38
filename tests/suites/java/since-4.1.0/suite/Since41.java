package suite;

import static suite.Scene.expect;
import static suite.Scene.same;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;

/** What came after 3.9: how a consumer closes (KIP-1092), and listGroups (KIP-1043). */
public final class Since41 implements Scenario.Source {
    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("close remaining in group", Since41::remain),
            new Scenario("close static leaving group", Since41::staticLeaves),
            new Scenario("admin: list all groups", Since41::listGroups),
            new Scenario("admin: describe classic groups", Since41::describeClassic));
    }

    private static void close(Member member, GroupMembershipOperation how) throws Exception {
        member.stopPolling().ask(consumer -> {
            consumer.close(CloseOptions.groupMembershipOperation(how));
            return null;
        });
        member.close();
    }

    private static void remain(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic);
        Member two = s.join(topic, "session.timeout.ms", "3000");
        s.shares(1, one, two);
        s.settled(one, two);
        close(two, GroupMembershipOperation.REMAIN_IN_GROUP);
        Scene.quiet(1_200, one);
        s.shares(2, one);
    }

    /** A static member that says so leaves at once, its instance id with it. */
    private static void staticLeaves(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic);
        Member two = s.join(topic, "group.instance.id", "two", "session.timeout.ms", "60000");
        s.shares(1, one, two);
        close(two, GroupMembershipOperation.LEAVE_GROUP);
        s.shares(2, one);
        same(1, AdminScenarios.described(s).members().size(), "members");
    }

    private static void listGroups(Scene s) throws Exception {
        s.shares(1, s.join(s.topic(1)));
        var options = new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))
            .inGroupStates(Set.of(GroupState.STABLE)).withProtocolTypes(Set.of("consumer"));
        var mine = s.admin.listGroups(options).all().get().stream()
            .filter(group -> group.groupId().equals(s.group)).findFirst();
        expect(mine.isPresent(), "it is listed");
        same(Optional.of(GroupState.STABLE), mine.get().groupState(), "state");
        same("consumer", mine.get().protocol(), "protocol");
    }

    private static void describeClassic(Scene s) throws Exception {
        Member one = s.join(s.topic(2), "group.instance.id", "fixed");
        s.shares(2, one);
        var group = s.admin.describeClassicGroups(List.of(s.group)).all().get().get(s.group);
        same("consumer", group.protocol(), "protocol type");
        same("range", group.protocolData(), "protocol");
        same(1, group.members().size(), "members");
    }
}
