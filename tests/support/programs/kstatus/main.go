// Says of Kubernetes objects what tools that use the kstatus library think of them: kubectl apply with
// pruning, Flux, kpt, and whatever else waits until an object is done.
//
// One object in JSON a line comes in, one verdict in JSON a line goes out:
//
//	{"status":"InProgress","message":"..."}
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type verdict struct {
	Status  status.Status `json:"status"`
	Message string        `json:"message"`
}

func judge(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	verdicts := json.NewEncoder(out)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// Not a plain map: this reads whole numbers as int64, as the library expects them.
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(line); err != nil {
			return fmt.Errorf("not an object: %w", err)
		}
		result, err := status.Compute(object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if err := verdicts.Encode(verdict{result.Status, result.Message}); err != nil {
			return err
		}
	}
}

func main() {
	if err := judge(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kstatus:", err)
		os.Exit(1)
	}
}
