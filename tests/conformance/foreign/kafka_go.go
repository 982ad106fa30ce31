// Produces records with these timestamps through kafka-go: address, topic, codec, milliseconds...
package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	codecs := map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	writer := &kafka.Writer{
		Addr:         kafka.TCP(os.Args[1]),
		Topic:        os.Args[2],
		Compression:  codecs[os.Args[3]],
		RequiredAcks: kafka.RequireAll,
		BatchTimeout: 10 * time.Millisecond,
	}
	var messages []kafka.Message
	for _, word := range os.Args[4:] {
		millis, err := strconv.ParseInt(word, 10, 64)
		check(err)
		messages = append(messages, kafka.Message{Value: []byte(word), Time: time.UnixMilli(millis)})
	}
	check(writer.WriteMessages(context.Background(), messages...))
	check(writer.Close())
}
