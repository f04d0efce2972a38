// A worker on franz-go: the part of the vocabulary of tests/clients/workers that situations use. A
// command is a line of JSON in, answers and events are lines of JSON out.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type command struct {
	ID          int            `json:"id"`
	Do          string         `json:"do"`
	Topics      []string       `json:"topics"`
	Group       string         `json:"group"`
	SessionMS   int            `json:"session_ms"`
	HeartbeatMS int            `json:"heartbeat_ms"`
	InstanceID  *string        `json:"instance_id"`
	AutoCommit  bool           `json:"auto_commit"`
	More        map[string]any `json:"more"`
}

var told sync.Mutex

func tell(event map[string]any) {
	told.Lock()
	defer told.Unlock()
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func ms(number int) time.Duration { return time.Duration(number) * time.Millisecond }

type partition struct {
	topic  string
	number int32
}

// The callbacks have only what changes, of which there is less than all in a cooperative group.
var owned = map[partition]bool{}
var owning sync.Mutex

func moved(isAssigned bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		owning.Lock()
		defer owning.Unlock()
		for topic, numbers := range partitions {
			for _, number := range numbers {
				if isAssigned {
					owned[partition{topic, number}] = true
				} else {
					delete(owned, partition{topic, number})
				}
			}
		}
		pairs := [][2]any{}
		for each := range owned {
			pairs = append(pairs, [2]any{each.topic, each.number})
		}
		if !isAssigned {
			tell(map[string]any{"event": "revoked", "partitions": [][2]any{}})
		}
		if isAssigned || len(owned) > 0 {
			tell(map[string]any{"event": "assigned", "partitions": pairs})
		}
	}
}

func start(bootstrap string, wanted command) (*kgo.Client, error) {
	balancer := kgo.RangeBalancer()
	if wanted.More["partition.assignment.strategy"] == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(wanted.Group),
		kgo.ConsumeTopics(wanted.Topics...),
		kgo.SessionTimeout(ms(wanted.SessionMS)),
		kgo.HeartbeatInterval(ms(wanted.HeartbeatMS)),
		kgo.ClientID(wanted.More["client.id"].(string)),
		kgo.Balancers(balancer),
		committing(wanted),
		kgo.OnPartitionsAssigned(moved(true)),
		kgo.OnPartitionsRevoked(moved(false)),
		kgo.OnPartitionsLost(moved(false)),
	}
	if age, ok := wanted.More["metadata.max.age.ms"].(float64); ok {
		options = append(options, kgo.MetadataMaxAge(ms(int(age))), kgo.MetadataMinAge(ms(500)))
	}
	if wanted.InstanceID != nil {
		options = append(options, kgo.InstanceID(*wanted.InstanceID))
	}
	entrance, err := entrance(wanted.More)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, entrance...)...)
	if err == nil {
		go poll(client)
	}
	return client, err
}

func committing(wanted command) kgo.Opt {
	if interval, ok := wanted.More["auto.commit.interval.ms"].(float64); ok && wanted.AutoCommit {
		return kgo.AutoCommitInterval(ms(int(interval)))
	}
	return kgo.DisableAutoCommit()
}

// What it takes to get in where not everybody may.
func entrance(more map[string]any) ([]kgo.Opt, error) {
	config, err := tlsConfig(more)
	if config == nil || err != nil {
		return nil, err
	}
	options := []kgo.Opt{kgo.DialTLSConfig(config)}
	if token := text(more, "token"); token != "" {
		options = append(options, kgo.SASL(oauth.Auth{Token: token}.AsMechanism()))
	} else if user := text(more, "sasl.username"); user != "" {
		login := scram.Auth{User: user, Pass: text(more, "sasl.password")}
		options = append(options, kgo.SASL(login.AsSha512Mechanism()))
	}
	return options, nil
}

func poll(client *kgo.Client) {
	for {
		fetches := client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) {
			fmt.Fprintln(os.Stderr, "error:", err)
		})
		records := [][4]any{}
		fetches.EachRecord(func(each *kgo.Record) {
			place := [4]any{each.Topic, each.Partition, each.Offset, string(each.Value)}
			records = append(records, place)
		})
		if len(records) > 0 {
			tell(map[string]any{"event": "records", "records": records})
		}
	}
}

func main() {
	var client *kgo.Client
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() { // whoever started this is gone at the end: neither leave nor commit
		var wanted command
		err := json.Unmarshal(lines.Bytes(), &wanted)
		switch wanted.Do {
		case "start":
			client, err = start(os.Args[1], wanted)
		case "commit":
			err = client.CommitUncommittedOffsets(context.Background())
		case "enforce":
			client.ForceRebalance()
		case "close":
			client.Close()
		default:
			err = fmt.Errorf("unknown: %s", wanted.Do)
		}
		if err != nil {
			tell(map[string]any{"answer": wanted.ID, "error": "Failed", "text": err.Error()})
			continue
		}
		tell(map[string]any{"answer": wanted.ID, "result": nil})
	}
}
