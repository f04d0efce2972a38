// A worker on sarama: the part of the vocabulary of tests/clients/workers that plays use. A command is
// a line of JSON in, answers and events are lines of JSON out.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type command struct {
	ID          int            `json:"id"`
	Do          string         `json:"do"`
	Topics      []string       `json:"topics"`
	Group       string         `json:"group"`
	SessionMS   int            `json:"session_ms"`
	HeartbeatMS int            `json:"heartbeat_ms"`
	InstanceID  *string        `json:"instance_id"`
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

// What a session calls: with a plan, with the records of each partition, and at its end.
type handler struct {
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.lock.Lock()
	h.session = session
	h.lock.Unlock()
	pairs := [][2]any{}
	for topic, numbers := range session.Claims() {
		for _, number := range numbers {
			pairs = append(pairs, [2]any{topic, number})
		}
	}
	tell(map[string]any{"event": "assigned", "partitions": pairs})
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error {
	tell(map[string]any{"event": "revoked", "partitions": [][2]any{}})
	return nil
}

func (h *handler) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for each := range claim.Messages() {
		session.MarkMessage(each, "")
		record := [4]any{each.Topic, each.Partition, each.Offset, string(each.Value)}
		tell(map[string]any{"event": "records", "records": [][4]any{record}})
	}
	return nil
}

func (h *handler) commit() {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.session.Commit() // an error of it is heard of by the channel of errors
}

func start(bootstrap string, wanted command, made *handler) (sarama.ConsumerGroup, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.ClientID = wanted.More["client.id"].(string)
	config.Consumer.Group.Session.Timeout = ms(wanted.SessionMS)
	config.Consumer.Group.Heartbeat.Interval = ms(wanted.HeartbeatMS)
	config.Consumer.Group.Rebalance.Timeout = time.Minute
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Retry.Max = 0
	config.Consumer.Return.Errors = true
	if wanted.InstanceID != nil {
		config.Consumer.Group.InstanceId = *wanted.InstanceID
	}
	if err := enter(config, wanted.More); err != nil {
		return nil, err
	}
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, wanted.Group, config)
	if err != nil {
		return nil, err
	}
	go hear(group)
	go func() {
		for {
			err := group.Consume(context.Background(), wanted.Topics, made)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "session:", err)
			}
		}
	}()
	return group, nil
}

// What it takes to get in where not everybody may: sarama leaves SCRAM itself to its users.
func enter(config *sarama.Config, more map[string]any) error {
	secure, err := tlsConfig(more)
	if secure == nil || err != nil {
		return err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = true, secure
	if user := text(more, "sasl.username"); user != "" {
		sasl := &config.Net.SASL
		sasl.Enable, sasl.Mechanism = true, sarama.SASLTypeSCRAMSHA512
		sasl.User, sasl.Password = user, text(more, "sasl.password")
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &login{} }
	}
	return nil
}

type login struct{ conversation *scram.ClientConversation }

func (l *login) Begin(user, password, authorization string) error {
	client, err := scram.SHA512.NewClient(user, password, authorization)
	if err == nil {
		l.conversation = client.NewConversation()
	}
	return err
}

func (l *login) Step(challenge string) (string, error) { return l.conversation.Step(challenge) }

func (l *login) Done() bool { return l.conversation.Done() }

var failures = make(chan error, 100)

func hear(group sarama.ConsumerGroup) {
	for err := range group.Errors() {
		fmt.Fprintln(os.Stderr, "error:", err)
		select {
		case failures <- err:
		default:
		}
	}
}

// The first error that comes soon after a commit: sarama gives none to whoever commits.
func committed(made *handler) error {
	for len(failures) > 0 {
		<-failures
	}
	made.commit()
	select {
	case err := <-failures:
		return err
	case <-time.After(300 * time.Millisecond):
		return nil
	}
}

func main() {
	var group sarama.ConsumerGroup
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	made := &handler{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() { // whoever started this is gone at the end: neither leave nor commit
		var wanted command
		err := json.Unmarshal(lines.Bytes(), &wanted)
		switch wanted.Do {
		case "start":
			group, err = start(os.Args[1], wanted, made)
		case "commit":
			err = committed(made)
		case "close":
			err = group.Close()
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
