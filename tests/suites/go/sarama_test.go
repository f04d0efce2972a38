// What is checked with sarama beside its own tests.
package ours

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

const (
	partitions = 50
	records    = 40_000
	size       = 1_000
	limit      = time.Minute
)

// 40 MB from an asynchronous producer as it is by default are delivered, by its own account and in
// the logs.
func TestLoad(t *testing.T) {
	topic := fmt.Sprintf("load-%d", time.Now().UnixNano())
	create(t, topic)
	produce(t, topic)
	read(t, topic)
}

func seeds() []string {
	return []string{os.Getenv("BOOTSTRAP")}
}

func create(t *testing.T, topic string) {
	admin, err := sarama.NewClusterAdmin(seeds(), sarama.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	wanted := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}
	if err := admin.CreateTopic(topic, wanted, false); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, topic string) {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true // to be told of every record
	producer, err := sarama.NewAsyncProducer(seeds(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.AsyncClose()
	stop := make(chan struct{})
	defer close(stop)
	go send(producer, topic, stop)
	delivered, late := 0, time.After(limit)
	for delivered < records {
		select {
		case <-producer.Successes():
			delivered++
		case failed := <-producer.Errors():
			t.Fatalf("%d of %d records delivered, then %v", delivered, records, failed.Err)
		case <-late:
			t.Fatalf("%d of %d records delivered in %v", delivered, records, limit)
		}
	}
}

func send(producer sarama.AsyncProducer, topic string, stop chan struct{}) {
	rest := strings.Repeat("x", size-8)
	for number := range records {
		value := sarama.StringEncoder(fmt.Sprintf("%08d%s", number, rest))
		select {
		case producer.Input() <- &sarama.ProducerMessage{Topic: topic, Value: value}:
		case <-stop:
			return
		}
	}
}

func read(t *testing.T, topic string) {
	consumer, err := sarama.NewConsumer(seeds(), sarama.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	messages, stop := make(chan *sarama.ConsumerMessage), make(chan struct{})
	defer close(stop)
	for partition := range int32(partitions) {
		one, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			t.Fatal(err)
		}
		defer one.AsyncClose()
		go pass(one.Messages(), messages, stop)
	}
	different, late := make(map[string]bool), time.After(limit)
	for read := range records {
		select {
		case message := <-messages:
			if len(message.Value) != size {
				t.Fatalf("a record of %d bytes", len(message.Value))
			}
			different[string(message.Value[:8])] = true
		case <-late:
			t.Fatalf("%d of %d records read in %v", read, records, limit)
		}
	}
	if len(different) != records {
		t.Fatalf("%d different records of %d", len(different), records)
	}
}

func pass(from <-chan *sarama.ConsumerMessage, to chan<- *sarama.ConsumerMessage, stop chan struct{}) {
	for message := range from {
		select {
		case to <- message:
		case <-stop:
			return
		}
	}
}
