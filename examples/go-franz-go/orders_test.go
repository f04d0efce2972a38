// Tests of a consumer with franz-go against a broker that `groupkeeper serve --control` runs.
// docs/testing-control.md says what the control port can do.
package orders

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A silent member is removed when its session ends: 45 seconds, which pass at once here.
func TestAConsumerHearsThatItLostItsPartitions(t *testing.T) {
	broker := start(t, "--topic", "orders:2")
	lost := make(chan map[string][]int32, 1)
	consumer := consume(t, broker, kgo.ClientID("silent"),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			lost <- partitions
		}))
	go consumer.PollFetches(t.Context())
	broker.post(t, "groups/billing/wait", `{"stable": true, "members": 1}`)

	broker.post(t, "time/advance", `{"seconds": 46, "silent": ["silent"]}`)

	select {
	case partitions := <-lost:
		if len(partitions["orders"]) != 2 {
			t.Fatalf("lost %v", partitions)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the consumer was not told")
	}
	broker.post(t, "groups/billing/wait", `{"stable": true, "members": 1, "generation": 2}`)
}

// The coordinator has moved when the consumer commits: the commit must be tried again.
func TestACommitSurvivesAFailover(t *testing.T) {
	broker := start(t, "--topic", "orders:1")
	broker.post(t, "topics/orders/records", `{"records": [{"value": "a"}, {"value": "b"}]}`)
	fault := broker.post(t, "faults",
		`{"effect": {"name": "error", "code": "NOT_COORDINATOR"}, "api": "OffsetCommit", "times": 1}`)

	consumer := consume(t, broker)
	for read := 0; read < 2; {
		read += consumer.PollFetches(t.Context()).NumRecords()
	}
	if err := consumer.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}

	broker.post(t, "groups/billing/wait",
		`{"committed": [{"topic": "orders", "partition": 0, "offset": 2}]}`)
	if hits := broker.get(t, "faults")["faults"].([]any)[0].(map[string]any)["hits"]; hits != 1.0 {
		t.Fatalf("fault %v has hit %v times", fault["rule"], hits)
	}
}

func consume(t *testing.T, broker broker, more ...kgo.Opt) *kgo.Client {
	consumer, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(broker.kafka),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(50 * time.Millisecond),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(consumer.Close)
	return consumer
}

// broker is a Groupkeeper process; it ends with the test.
type broker struct{ kafka, control string }

var ready = regexp.MustCompile(`kafka=(\S+) .*control=(\S+)`)

func start(t *testing.T, arguments ...string) broker {
	program := os.Getenv("GROUPKEEPER")
	if program == "" {
		program = "groupkeeper"
	}
	arguments = append([]string{"serve", "--dev", "--listen", "127.0.0.1:0", "--http", "off",
		"--control", "127.0.0.1:0"}, arguments...)
	command := exec.Command(program, arguments...)
	var stderr bytes.Buffer // its log; read when the process has ended
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Signal(os.Interrupt)
		command.Wait()
	})
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	found := ready.FindStringSubmatch(line)
	if found == nil {
		command.Process.Kill()
		command.Wait()
		t.Fatalf("the broker is not ready: %s%s", line, stderr.String())
	}
	return broker{found[1], "http://" + found[2] + "/control/v1/"}
}

func (b broker) post(t *testing.T, path, body string) map[string]any {
	answer, err := http.Post(b.control+path, "application/json", bytes.NewBufferString(body))
	return told(t, answer, err)
}

func (b broker) get(t *testing.T, path string) map[string]any {
	answer, err := http.Get(b.control + path)
	return told(t, answer, err)
}

func told(t *testing.T, answer *http.Response, err error) map[string]any {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s", body)
	}
	var found map[string]any
	if err := json.Unmarshal(body, &found); err != nil {
		t.Fatal(err)
	}
	return found
}
