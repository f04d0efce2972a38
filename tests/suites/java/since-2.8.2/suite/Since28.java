package suite;

import static suite.Scene.expect;
import static suite.Scene.partition;
import static suite.Scene.same;
import static suite.Scene.throwsError;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

/** What came after 2.4: group metadata, enforceRebalance, states, altering offsets, remove all. */
public final class Since28 implements Scenario.Source {
    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("group metadata", Since28::groupMetadata),
            new Scenario("enforce rebalance", Since28::enforceRebalance),
            new Scenario("static: leader keeps generation", s -> keepsGeneration(s, "one")),
            new Scenario("static: follower keeps generation", s -> keepsGeneration(s, "two")),
            new Scenario("admin: list states", Since28::listStates),
            new Scenario("admin: remove all members", Since28::removeAll),
            new Scenario("admin: alter offsets", Since28::alterOffsets));
    }

    static ConsumerGroupMetadata metadata(Member member) throws Exception {
        return member.ask(consumer -> consumer.groupMetadata());
    }

    private static void groupMetadata(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic, "group.instance.id", "fixed");
        s.shares(2, one);
        ConsumerGroupMetadata first = metadata(one);
        same(s.group, first.groupId(), "group id");
        same(Optional.of("fixed"), first.groupInstanceId(), "instance id");
        expect(first.memberId().startsWith("fixed-"), "member id: %s", first.memberId());
        expect(first.generationId() > 0, "generation: %s", first);
        Member two = s.join(topic);
        s.shares(1, one, two);
        expect(metadata(one).generationId() > first.generationId(), "a new generation");
        same(metadata(one).generationId(), metadata(two).generationId(), "generation of both");
        same(first.memberId(), metadata(one).memberId(), "member id");
    }

    private static void enforceRebalance(Scene s) throws Exception {
        String topic = s.topic(2);
        Member one = s.join(topic);
        s.shares(2, one);
        Member two = s.join(topic);
        s.shares(1, one, two);
        s.settled(one, two);
        int before = metadata(one).generationId();
        int others = two.rebalances();
        one.ask(consumer -> {
            consumer.enforceRebalance();
            return null;
        });
        s.until("the leader begins a generation", () -> metadata(one).generationId() > before);
        s.until("the other takes part", () -> two.rebalances() > others);
        s.shares(1, one, two);
    }

    private static void keepsGeneration(Scene s, String restarted) throws Exception {
        String topic = s.topic(4);
        Member one = s.join(topic, "group.instance.id", "one");
        s.shares(4, one);
        Member two = s.join(topic, "group.instance.id", "two");
        s.shares(2, one, two);
        s.settled(one, two);
        Member gone = restarted.equals("one") ? one : two;
        Member stays = gone == one ? two : one;
        ConsumerGroupMetadata before = metadata(gone);
        gone.close();
        Member back = s.join(topic, "group.instance.id", restarted);
        s.shares(2, back, stays);
        same(before.generationId(), metadata(back).generationId(), "generation of the returned");
        same(before.generationId(), metadata(stays).generationId(), "generation of the other");
        expect(!before.memberId().equals(metadata(back).memberId()), "a member id of its own");
        Member three = s.join(topic, "group.instance.id", "three");
        s.until("a third gets a share", () -> !three.assignment().isEmpty()
            && one.assignment().size() + two.assignment().size() + back.assignment().size()
                + three.assignment().size() == 4);
    }

    private static void listStates(Scene s) throws Exception {
        String topic = s.topic(1);
        Member one = s.join(topic);
        s.shares(1, one);
        same(Optional.of(ConsumerGroupState.STABLE), listed(s, Set.of()), "state");
        same(Optional.of(ConsumerGroupState.STABLE),
            listed(s, Set.of(ConsumerGroupState.STABLE)), "state");
        same(Optional.empty(), listed(s, Set.of(ConsumerGroupState.EMPTY)), "not among the empty");
        one.close();
        same(Optional.of(ConsumerGroupState.EMPTY),
            listed(s, Set.of(ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)), "state");
    }

    private static Optional<ConsumerGroupState> listed(Scene s, Set<ConsumerGroupState> states)
            throws Exception {
        return s.admin.listConsumerGroups(new ListConsumerGroupsOptions().inStates(states))
            .all().get().stream().filter(group -> group.groupId().equals(s.group))
            .map(group -> group.state().orElseThrow()).findFirst();
    }

    private static void removeAll(Scene s) throws Exception {
        String topic = s.topic(2);
        Member fixed = s.join(topic, "group.instance.id", "fixed");
        Member dynamic = s.join(topic);
        s.shares(1, fixed, dynamic);
        s.settled(fixed, dynamic);
        Set<String> before = ids(s);
        int rebalances = fixed.rebalances();
        s.admin.removeMembersFromConsumerGroup(s.group, new RemoveMembersFromConsumerGroupOptions())
            .all().get();
        // both are told at their next heartbeat, and join anew
        s.until("both are back", () -> fixed.rebalances() > rebalances && ids(s).size() == 2
            && ids(s).stream().noneMatch(before::contains));
        s.shares(1, fixed, dynamic);
    }

    private static Set<String> ids(Scene s) throws Exception {
        return AdminScenarios.described(s).members().stream()
            .map(member -> member.consumerId()).collect(Collectors.toSet());
    }

    private static void alterOffsets(Scene s) throws Exception {
        String topic = s.topic(1);
        s.produce(topic, 10);
        TopicPartition zero = partition(topic, 0);
        OffsetAndMetadata five = new OffsetAndMetadata(5, "set");
        s.admin.alterConsumerGroupOffsets(s.group, Map.of(zero, five)).all().get();
        same(Map.of(zero, five), s.committed(), "offsets of a group that began so");
        Member member = s.join(topic);
        s.until("from 5 on", () -> member.consumed().size() >= 5);
        same(5, member.consumed().size(), "records from 5 on");
        throwsError(UnknownMemberIdException.class, () ->
            s.admin.alterConsumerGroupOffsets(s.group, Map.of(zero, five)).all().get());
        member.close();
        OffsetAndMetadata two = new OffsetAndMetadata(2);
        var result = s.admin.alterConsumerGroupOffsets(s.group, Map.of(zero, two));
        result.partitionResult(zero).get();
        same(2L, s.committed().get(zero).offset(), "altered once it is empty");
        s.admin.deleteConsumerGroups(List.of(s.group)).all().get();
        throwsError(GroupIdNotFoundException.class, () ->
            s.admin.deleteConsumerGroups(List.of(s.group)).all().get());
    }
}
