package suite;

import static suite.Scene.expect;
import static suite.Scene.partition;
import static suite.Scene.same;
import static suite.Scene.throwsError;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The Admin on topics and the cluster: what consumers and their tools ask for beside groups. */
public final class TopicScenarios implements Scenario.Source {
    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("topics: create, list, delete", TopicScenarios::life),
            new Scenario("topics: add partitions", TopicScenarios::addPartitions),
            new Scenario("topics: configs", TopicScenarios::configs),
            new Scenario("topics: delete records", TopicScenarios::deleteRecords),
            new Scenario("cluster: describe, and configs of a node", TopicScenarios::cluster));
    }

    private static void life(Scene s) throws Exception {
        String topic = s.topic(3);
        throwsError(TopicExistsException.class, () ->
            s.admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
        expect(s.admin.listTopics().names().get().contains(topic), "it is listed");
        same(3, partitions(s, topic), "partitions");
        s.admin.deleteTopics(List.of(topic)).all().get();
        s.until("it is gone", () -> !s.admin.listTopics().names().get().contains(topic));
        throwsError(UnknownTopicOrPartitionException.class, () ->
            s.admin.deleteTopics(List.of(topic)).all().get());
    }

    private static int partitions(Scene s, String topic) throws Exception {
        Member asking = s.member();
        try (asking) {
            return asking.ask(consumer -> consumer.partitionsFor(topic).size());
        }
    }

    private static void addPartitions(Scene s) throws Exception {
        String topic = s.topic(2);
        s.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
        s.until("five partitions", () -> partitions(s, topic) == 5);
        throwsError(InvalidPartitionsException.class, () ->
            s.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get());
        throwsError(InvalidPartitionsException.class, () ->
            s.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get());
        throwsError(UnknownTopicOrPartitionException.class, () -> s.admin
            .createPartitions(Map.of(topic + "-no", NewPartitions.increaseTo(4))).all().get());
    }

    private static void configs(Scene s) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, s.topic(1));
        ConfigEntry before = config(s, topic).get("max.message.bytes");
        expect(before.isDefault(), "as by default: %s", before);
        var set = new AlterConfigOp(
            new ConfigEntry("max.message.bytes", "5000"), AlterConfigOp.OpType.SET);
        s.admin.incrementalAlterConfigs(Map.of(topic, List.of(set))).all().get();
        s.until("set", () -> config(s, topic).get("max.message.bytes").value().equals("5000"));
        same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG,
            config(s, topic).get("max.message.bytes").source(), "source");
        var delete = new AlterConfigOp(
            new ConfigEntry("max.message.bytes", null), AlterConfigOp.OpType.DELETE);
        s.admin.incrementalAlterConfigs(Map.of(topic, List.of(delete))).all().get();
        s.until("as before", () -> config(s, topic).get("max.message.bytes").equals(before));
    }

    private static Config config(Scene s, ConfigResource of) throws Exception {
        return s.admin.describeConfigs(List.of(of)).all().get().get(of);
    }

    private static void deleteRecords(Scene s) throws Exception {
        String topic = s.topic(1);
        s.produce(topic, 20);
        TopicPartition zero = partition(topic, 0);
        same(12L, s.admin.deleteRecords(Map.of(zero, RecordsToDelete.beforeOffset(12)))
            .lowWatermarks().get(zero).get().lowWatermark(), "low watermark");
        throwsError(OffsetOutOfRangeException.class, () -> s.admin
            .deleteRecords(Map.of(zero, RecordsToDelete.beforeOffset(30))).all().get());
        Member member = s.join(topic);
        s.consumedOnce(8);
        expect(member.consumed().contains(zero + "@12"), "from 12 on");
        same(Map.of(zero, 12L), member.ask(consumer ->
            consumer.beginningOffsets(List.of(zero))), "first offset");
    }

    private static void cluster(Scene s) throws Exception {
        var cluster = s.admin.describeCluster();
        same(1, cluster.nodes().get().size(), "nodes");
        expect(!cluster.clusterId().get().isEmpty(), "an id");
        ConfigResource node = new ConfigResource(
            ConfigResource.Type.BROKER, cluster.nodes().get().iterator().next().idString());
        same("1000", config(s, node).get("group.min.session.timeout.ms").value(), "as it is set");
        expect(Set.of("0", "3000").contains(
            config(s, node).get("group.initial.rebalance.delay.ms").value()), "a delay");
    }
}
