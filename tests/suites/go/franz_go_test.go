// What is checked with franz-go beside its own tests.
package ours

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	partitions = 50
	records    = 40_000
	size       = 1_000
	limit      = time.Minute
)

// 40 MB from a producer as it is by default are delivered, by its own account and in the logs.
func TestLoad(t *testing.T) {
	topic := fmt.Sprintf("load-%d", time.Now().UnixNano())
	create(t, topic)
	produce(t, topic)
	read(t, topic)
}

func client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(os.Getenv("BOOTSTRAP")))...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func create(t *testing.T, topic string) {
	admin := client(t)
	defer admin.Close()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, partitions, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, wanted)
	answer, err := request.RequestWith(context.Background(), admin)
	if err != nil || answer.Topics[0].ErrorCode != 0 {
		t.Fatalf("no topic: %v %+v", err, answer)
	}
}

func produce(t *testing.T, topic string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	producer := client(t)
	defer producer.Close()
	var delivered atomic.Int64
	noise := rand.NewChaCha8([32]byte{}) // it compresses, so there is nothing to compress
	for number := range records {
		value := fmt.Appendf(make([]byte, 0, size), "%08d", number)[:size]
		noise.Read(value[8:])
		record := &kgo.Record{Topic: topic, Value: value}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err == nil {
				delivered.Add(1)
			}
		})
	}
	err := producer.Flush(ctx)
	if delivered.Load() != records {
		t.Fatalf("%d of %d records delivered in %v: %v", delivered.Load(), records, limit, err)
	}
}

func read(t *testing.T, topic string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	consumer := client(t, kgo.ConsumeTopics(topic))
	defer consumer.Close()
	read := 0
	different := make(map[string]bool)
	for read < records && ctx.Err() == nil {
		consumer.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			if len(record.Value) != size {
				t.Fatalf("a record of %d bytes", len(record.Value))
			}
			read++
			different[string(record.Value[:8])] = true
		})
	}
	if read != records || len(different) != records {
		t.Fatalf("%d records read, %d different ones, of %d", read, len(different), records)
	}
}
