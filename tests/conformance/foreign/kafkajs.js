// Produces records with these timestamps through KafkaJS: address, topic, codec, milliseconds...
const { Kafka, CompressionTypes, Partitioners, logLevel } = require("kafkajs");

const [address, topic, codec, ...times] = process.argv.slice(2);

(async () => {
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR });
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
  await producer.connect();
  await producer.send({
    topic,
    acks: -1,
    compression: codec === "gzip" ? CompressionTypes.GZIP : CompressionTypes.None,
    messages: times.map((timestamp) => ({ value: timestamp, timestamp })),
  });
  await producer.disconnect();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
