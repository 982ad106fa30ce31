import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** How every client of this process logs in. */
final class Login {
    private Login() {
    }

    /** What stands now in the file that -Doncelog.login or ONCELOG_TEST_LOGIN_FILE names; nothing without one. */
    static Properties properties() {
        Properties config = new Properties();
        String file = System.getProperty("oncelog.login", System.getenv("ONCELOG_TEST_LOGIN_FILE"));
        if (file != null) {
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                config.load(reader);
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
            config.remove("bootstrap.servers");
        }
        return config;
    }
}
