package io.grpc;

/**
 * Stands in for the class of this name in the emulator's jar. The newer gRPC core in there asks for an exception "with or
 * without stack trace", which the older API beside it has under another name only; the call then dies, and a cancelled
 * stream is never cleaned up. This class answers to both.
 */
public final class InternalStatus {
  public static final Metadata.Key<Status> CODE_KEY = Status.CODE_KEY;
  public static final Metadata.Key<String> MESSAGE_KEY = Status.MESSAGE_KEY;

  private InternalStatus() {}

  /** What the newer core calls. */
  public static StatusRuntimeException asRuntimeException(Status status, Metadata trailers, boolean withStackTrace) {
    if (withStackTrace) {
      return status.asRuntimeException(trailers);
    }
    return asRuntimeExceptionWithoutStacktrace(status, trailers);
  }

  /** What the older API offers. */
  public static StatusRuntimeException asRuntimeExceptionWithoutStacktrace(Status status, Metadata trailers) {
    return new InternalStatusRuntimeException(status, trailers);
  }
}
