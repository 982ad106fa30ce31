// Produces records with these timestamps through sarama: address, topic, codec, milliseconds...
package main

import (
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	check(config.Producer.Compression.UnmarshalText([]byte(os.Args[3])))
	producer, err := sarama.NewSyncProducer([]string{os.Args[1]}, config)
	check(err)
	var messages []*sarama.ProducerMessage
	for _, word := range os.Args[4:] {
		millis, err := strconv.ParseInt(word, 10, 64)
		check(err)
		messages = append(messages, &sarama.ProducerMessage{
			Topic:     os.Args[2],
			Value:     sarama.StringEncoder(word),
			Timestamp: time.UnixMilli(millis),
		})
	}
	check(producer.SendMessages(messages))
	check(producer.Close())
}
