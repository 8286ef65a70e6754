import java.util.concurrent.*;

/** Main thread take()s from a queue; a scheduled producer delivers late. */
public class SlowProducer {
    public static void main(String[] a) throws Exception {
        String e = System.getenv("UNSEEN_SECONDS");
        long ms = (long) (1000 * (e == null ? 15 : Double.parseDouble(e)));
        BlockingQueue<Integer> q = new LinkedBlockingQueue<>();
        ScheduledExecutorService s = Executors.newScheduledThreadPool(1);
        for (int i = 1; i <= 2; i++) { final int n = i; s.schedule(() -> q.add(n), ms * i / 2, TimeUnit.MILLISECONDS); }
        System.out.println("consumer ready");
        int sum = q.take() + q.take();
        s.shutdown();
        System.out.println(sum == 3 ? "alive" : "odd");
    }
}
