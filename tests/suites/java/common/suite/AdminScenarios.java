package suite;

import static suite.Scene.expect;
import static suite.Scene.partition;
import static suite.Scene.same;
import static suite.Scene.throwsError;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

/** The Admin of Kafka 2.4: list, describe, remove members, offsets and their deletion. */
public final class AdminScenarios implements Scenario.Source {
    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("admin: list groups", AdminScenarios::list),
            new Scenario("admin: describe groups", AdminScenarios::describe),
            new Scenario("admin: describe states", AdminScenarios::states),
            new Scenario("admin: describe unknown group", AdminScenarios::describeUnknown),
            new Scenario("admin: remove static member", AdminScenarios::removeStatic),
            new Scenario("admin: list offsets", AdminScenarios::listOffsets),
            new Scenario("admin: delete offsets", AdminScenarios::deleteOffsets),
            new Scenario("admin: delete groups", AdminScenarios::deleteGroups));
    }

    static ConsumerGroupDescription described(Scene s) throws Exception {
        return s.admin.describeConsumerGroups(List.of(s.group)).all().get().get(s.group);
    }

    /** Commit offset 5 for each partition as somebody who only assigns. */
    static void commit(Scene s, TopicPartition... partitions) throws Exception {
        Member member = s.member();
        member.ask(consumer -> {
            consumer.assign(List.of(partitions));
            for (TopicPartition partition : partitions) {
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(5)));
            }
            return null;
        });
        member.close();
    }

    private static void list(Scene s) throws Exception {
        String topic = s.topic(2);
        s.shares(2, s.join(topic));
        Optional<ConsumerGroupListing> mine = s.admin.listConsumerGroups().all().get().stream()
            .filter(group -> group.groupId().equals(s.group)).findFirst();
        expect(mine.isPresent(), "it is listed");
        expect(!mine.get().isSimpleConsumerGroup(), "with a protocol: %s", mine);
    }

    private static void describe(Scene s) throws Exception {
        String topic = s.topic(4);
        Member one = s.join(topic, "client.id", "first", "group.instance.id", "instance-1");
        Member two = s.join(topic, "client.id", "second");
        s.shares(2, one, two);
        ConsumerGroupDescription group = s.admin.describeConsumerGroups(List.of(s.group),
            new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true))
            .all().get().get(s.group);
        same(ConsumerGroupState.STABLE, group.state(), "state");
        same("range", group.partitionAssignor(), "assignor");
        expect(!group.isSimpleConsumerGroup(), "not simple");
        expect(group.coordinator().port() > 0, "its coordinator: %s", group.coordinator());
        expect(group.authorizedOperations().containsAll(Set.of(
            AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE)),
            "what is allowed: %s", group.authorizedOperations());
        same(2, group.members().size(), "members");
        for (MemberDescription member : group.members()) {
            boolean first = member.clientId().equals("first");
            same(first ? one.assignment() : two.assignment(),
                member.assignment().topicPartitions(), "assignment of " + member.clientId());
            same(first ? Optional.of("instance-1") : Optional.empty(),
                member.groupInstanceId(), "instance id of " + member.clientId());
            expect(member.consumerId().startsWith(first ? "instance-1-" : "second-"),
                "member id: %s", member);
            same("/127.0.0.1", member.host(), "host");
        }
        expect(described(s).authorizedOperations() == null, "operations only when asked for");
    }

    private static void states(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic);
        s.shares(2, one);
        one.stopPolling();
        Member two = s.join(topic);
        s.until("a join phase that waits", () ->
            described(s).state() == ConsumerGroupState.PREPARING_REBALANCE);
        one.pollAgain();
        s.shares(1, one, two);
        same(ConsumerGroupState.STABLE, described(s).state(), "state");
        one.close();
        two.close();
        s.until("empty", () -> described(s).state() == ConsumerGroupState.EMPTY);
        same(0, described(s).members().size(), "members of an empty group");
    }

    /** Dead before KIP-1043; an error for whoever describes with DescribeGroups v6. */
    private static void describeUnknown(Scene s) throws Exception {
        try {
            same(ConsumerGroupState.DEAD, described(s).state(), "state");
        } catch (ExecutionException error) {
            expect(error.getCause() instanceof GroupIdNotFoundException, "%s", error);
        }
    }

    private static void removeStatic(Scene s) throws Exception {
        String topic = s.topic(4);
        Member stays = s.join(topic, "group.instance.id", "stays");
        Member gone = s.join(topic, "group.instance.id", "gone", "session.timeout.ms", "60000");
        s.shares(2, stays, gone);
        gone.close();
        MemberToRemove unknown = new MemberToRemove("unknown");
        MemberToRemove known = new MemberToRemove("gone");
        var both = s.admin.removeMembersFromConsumerGroup(s.group,
            new RemoveMembersFromConsumerGroupOptions(List.of(known, unknown)));
        throwsError(UnknownMemberIdException.class, () -> both.memberResult(unknown).get());
        both.memberResult(known).get();
        s.shares(4, stays);
        var again = s.admin.removeMembersFromConsumerGroup(s.group,
            new RemoveMembersFromConsumerGroupOptions(List.of(known)));
        throwsError(UnknownMemberIdException.class, () -> again.all().get());
    }

    private static void listOffsets(Scene s) throws Exception {
        String topic = s.topic(2);
        same(Map.of(), s.committed(), "offsets of an unknown group");
        commit(s, partition(topic, 0), partition(topic, 1));
        same(Set.of(partition(topic, 0), partition(topic, 1)),
            new HashSet<>(s.committed().keySet()), "partitions");
        same(5L, s.committed().get(partition(topic, 1)).offset(), "offset");
    }

    private static void deleteOffsets(Scene s) throws Exception {
        TopicPartition used = partition(s.topic("-used", 1), 0);
        TopicPartition other = partition(s.topic("-other", 1), 0);
        TopicPartition empty = partition(s.topic("-empty", 1), 0);
        commit(s, used, other);
        Member member = s.join(used.topic());
        s.shares(1, member);
        var result = s.admin.deleteConsumerGroupOffsets(s.group, Set.of(used, other));
        throwsError(GroupSubscribedToTopicException.class, () ->
            result.partitionResult(used).get());
        result.partitionResult(other).get();
        same(Set.of(used), new HashSet<>(s.committed().keySet()), "partitions with offsets");
        member.close();
        s.admin.deleteConsumerGroupOffsets(s.group, Set.of(used, empty)).all().get();
        same(Map.of(), s.committed(), "offsets");
        throwsError(GroupIdNotFoundException.class, () ->
            s.admin.deleteConsumerGroupOffsets(s.group + "-unknown", Set.of(used)).all().get());
    }

    private static void deleteGroups(Scene s) throws Exception {
        String topic = s.topic(1);
        s.produce(topic, 10);
        Member member = s.join(topic);
        s.consumed(10);
        throwsError(GroupNotEmptyException.class, () ->
            s.admin.deleteConsumerGroups(List.of(s.group)).all().get());
        s.shares(1, member);
        member.close();
        s.admin.deleteConsumerGroups(List.of(s.group)).all().get();
        same(Map.of(), s.committed(), "offsets of a deleted group");
        throwsError(GroupIdNotFoundException.class, () ->
            s.admin.deleteConsumerGroups(List.of(s.group)).all().get());
        Member again = s.join(topic);
        s.until("from the start", () -> again.consumed().size() == 10);
    }
}
