// A task with two steps over the socket of the daemon. Kill it at any moment and run it again.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
)

var client = http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
	return net.Dial("unix", os.Getenv("RELIGHT_HOME")+"/relight.sock")
}}}

type fields map[string]any

func call(path string, body fields) fields {
	text, _ := json.Marshal(body)
	answer, err := client.Post("http://localhost/api/tasks/"+path, "application/json", bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	var said fields
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || said["error"] != nil {
		panic(fmt.Sprint(path, " ", said["error"], " ", err))
	}
	return said
}

func step(task string, fence any, name string, run func() string) string {
	path := task + "/steps/" + name
	begun := call(path+"/begin", fields{"fence": fence})
	if begun["advice"] == "finished" {
		return begun["output"].(string)
	}
	output := run()
	call(path+"/end", fields{"fence": fence, "output": output})
	return output
}

func main() {
	// The lease of a killed run is continued with its fence; without one it ends after 30 seconds.
	saved, _ := os.ReadFile("report-7.fence")
	var fence any
	json.Unmarshal(saved, &fence)
	fence = call("report-7/start", fields{"agent": "reporter", "lease": "30s", "fence": fence})["fence"]
	os.WriteFile("report-7.fence", []byte(fmt.Sprint(fence)), 0o600)
	text := step("report-7", fence, "fetch", func() string { fmt.Println("fetching"); return "one two three" })
	if len(os.Args) > 1 && os.Args[1] == "--crash" {
		os.Exit(9)
	}
	step("report-7", fence, "publish", func() string { fmt.Println("publishing:", text); return "" })
	call("report-7/done", fields{"fence": fence})
	os.Remove("report-7.fence")
}
