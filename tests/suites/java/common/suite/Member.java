package suite;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;

/**
 * A consumer that polls in a thread of its own and notes what it is told.
 *
 * <p>It commits what it has consumed when partitions are taken from it, in the rebalance listener,
 * as Kafka's documentation advises: so records are consumed once as long as nobody dies.
 */
final class Member implements Participant, ConsumerRebalanceListener {
    /** What a consumer is asked between two polls. */
    interface Task<T> {
        T run(KafkaConsumer<String, String> consumer) throws Exception;
    }

    final KafkaConsumer<String, String> consumer;
    private final Thread thread;
    private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
    private final AtomicInteger led = new AtomicInteger();
    private final List<String> consumed = new ArrayList<>();
    private final List<Set<TopicPartition>> assigned = new ArrayList<>();
    private final List<Set<TopicPartition>> revoked = new ArrayList<>();
    private final List<Set<TopicPartition>> lost = new ArrayList<>();
    private final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
    private volatile Set<TopicPartition> assignment = Set.of();
    private volatile Throwable failure;
    private volatile boolean polling;
    private volatile boolean ending;

    Member(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put(Assignors.COUNTER, led);
        consumer = new KafkaConsumer<>(all);
        thread = new Thread(this::run, String.valueOf(settings.get("client.id")));
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        try {
            while (!ending) {
                for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
                    task.run();
                }
                if (polling) {
                    consumer.poll(Duration.ofMillis(50)).forEach(this::consume);
                    assignment = Set.copyOf(consumer.assignment());
                } else {
                    TimeUnit.MILLISECONDS.sleep(5);
                }
            }
        } catch (Throwable error) {
            failure = error;
        }
        try {
            consumer.close(Duration.ofSeconds(5));
        } catch (RuntimeException error) {
            failure = failure == null ? error : failure;
        }
        assignment = Set.of();
    }

    private void consume(ConsumerRecord<String, String> record) {
        TopicPartition partition = new TopicPartition(record.topic(), record.partition());
        next.put(partition, new OffsetAndMetadata(record.offset() + 1));
        synchronized (consumed) {
            consumed.add(partition + "@" + record.offset());
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        note(assigned, partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>(next);
        done.keySet().retainAll(partitions);
        try {
            if (!done.isEmpty()) {
                consumer.commitSync(done);
            }
        } catch (CommitFailedException | RebalanceInProgressException error) {
            // hurried from one rebalance into the next: the records will be consumed again
        }
        next.keySet().removeAll(partitions);
        note(revoked, partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        next.keySet().removeAll(partitions);
        note(lost, partitions);
    }

    private static void note(
            List<Set<TopicPartition>> calls, Collection<TopicPartition> partitions) {
        synchronized (calls) {
            calls.add(new HashSet<>(partitions));
        }
    }

    private static Set<TopicPartition> union(List<Set<TopicPartition>> calls) {
        Set<TopicPartition> all = new HashSet<>();
        synchronized (calls) {
            calls.forEach(all::addAll);
        }
        return all;
    }

    /** Run something in the consumer's thread and hand back what it says or throws. */
    <T> T ask(Task<T> task) throws Exception {
        CompletableFuture<T> answer = new CompletableFuture<>();
        tasks.add(() -> {
            try {
                answer.complete(task.run(consumer));
            } catch (Throwable error) {
                answer.completeExceptionally(error);
            }
        });
        try {
            return answer.get(40, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        } catch (TimeoutException error) {
            throw new AssertionError(this + " did not come to it in 40 s");
        }
    }

    /** Subscribe to topics with this member as the listener, and poll from now on. */
    Member subscribe(String... topics) throws Exception {
        return asked(consumer -> consumer.subscribe(List.of(topics), this));
    }

    /** As subscribe, but with whatever says what to consume; it polls from now on. */
    Member asked(Consumer<KafkaConsumer<String, String>> how) throws Exception {
        ask(consumer -> {
            how.accept(consumer);
            return null;
        });
        polling = true;
        return this;
    }

    /** Stop polling between two polls: what an application does that is too slow. */
    Member stopPolling() throws Exception {
        ask(consumer -> {
            polling = false;
            return null;
        });
        return this;
    }

    Member pollAgain() {
        polling = true;
        return this;
    }

    /** Commit what was consumed. */
    void commit() throws Exception {
        ask(consumer -> {
            consumer.commitSync(next);
            next.clear();
            return null;
        });
    }

    /** Forget what the listener was told so far. */
    Member forget() {
        for (List<Set<TopicPartition>> calls : List.of(assigned, revoked, lost)) {
            synchronized (calls) {
                calls.clear();
            }
        }
        return this;
    }

    Set<TopicPartition> revoked() {
        return union(revoked);
    }

    Set<TopicPartition> lost() {
        return union(lost);
    }

    @Override
    public Set<TopicPartition> assignment() {
        return assignment;
    }

    @Override
    public List<String> consumed() {
        synchronized (consumed) {
            return new ArrayList<>(consumed);
        }
    }

    @Override
    public int rebalances() {
        synchronized (assigned) {
            return assigned.size();
        }
    }

    @Override
    public int led() {
        return led.get();
    }

    @Override
    public Throwable failure() {
        return failure;
    }

    @Override
    public void close() {
        ending = true;
        try {
            thread.join(15_000);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public String toString() {
        return "%s%s rebalances=%d led=%d consumed=%d%s".formatted(
            thread.getName(), assignment, rebalances(), led(), consumed().size(),
            failure == null ? "" : " failed: " + failure);
    }
}
