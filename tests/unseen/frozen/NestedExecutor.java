import java.nio.file.*;
import java.util.concurrent.*;

/** A pipeline stage submits a sub-task to its own single-threaded executor and waits for it. */
public class NestedExecutor {
    public static void main(String[] a) throws Exception {
        String tmp = System.getenv().getOrDefault("UNSEEN_TMP", System.getProperty("java.io.tmpdir"));
        Path hb = Path.of(tmp, "metrics.txt");
        ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
        timer.scheduleAtFixedRate(() -> {
            try {
                long used = Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
                Files.writeString(hb, System.currentTimeMillis() + " heap=" + used + "\n",
                        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (Exception e) { }
        }, 0, 1, TimeUnit.SECONDS);
        ExecutorService stage = Executors.newSingleThreadExecutor();
        System.out.println(stage.submit(() -> 6 * 7).get());
        System.out.println("frozen soon");
        Future<Integer> outer = stage.submit(() -> {
            Future<Integer> inner = stage.submit(() -> 1);
            return inner.get() + 1;
        });
        System.out.println(outer.get());
    }
}
