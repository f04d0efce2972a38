package suite;

import java.util.List;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** A member of a group as a scenario sees it, whichever process and version it lives in. */
interface Participant extends AutoCloseable {
    Set<TopicPartition> assignment();

    /** The records consumed so far, each as {@code topic-partition@offset}. */
    List<String> consumed();

    /** How often it was given an assignment: the rebalances it took part in. */
    int rebalances();

    /** How often it computed the group's assignment as its leader. */
    int led();

    /** What ended it, or null. */
    Throwable failure();

    /** End it as its settings say: with a leave unless it is static. */
    @Override
    void close();

    default boolean has(int partitions) {
        return assignment().size() == partitions;
    }
}
